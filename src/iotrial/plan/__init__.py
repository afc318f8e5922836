"""study.toml → Study → Plan.  Pure: nothing here touches a machine.

A file's way: :mod:`~iotrial.plan.load` reads TOML, :mod:`~iotrial.plan.validate` its keys and
types (:mod:`~iotrial.plan.schema`), :mod:`~iotrial.plan.check` what its tables say of each other,
:mod:`~iotrial.plan.convert` makes the nouns, :mod:`~iotrial.plan.sense` asks the tools.
:mod:`~iotrial.plan.design` then spreads the treatments over trials, and
:mod:`~iotrial.plan.estimate` says what that will cost.
"""

"""Lint: settings that cannot work, or do something else than who wrote them thinks.

A file of settings is parsed (:mod:`iotrial_lint.parsers`, pure: bytes → entries with their lines)
and judged by rules (:mod:`iotrial_lint.rules`, one function each).  What a rule has to say is a
:class:`~iotrial_lint.rule.LintMessage`: where, what, why, and what to write instead.
:mod:`iotrial_lint.machine` reads a running host, in few round trips; nothing is ever changed.
"""

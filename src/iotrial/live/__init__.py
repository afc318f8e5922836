"""Live: what a run says of itself while it goes on, as one document that many may look at.

The run's watcher (:mod:`iotrial.live.watcher`) only notes events.  A thread of its own folds them
into a picture (:mod:`iotrial.live.picture`), writes it to ``live.json`` in the results folder for
``iotrial status --follow``, and gives it to the page and to ``/metrics`` (``run --live``).
"""

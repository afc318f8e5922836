"""Live: what a run says of itself while it goes on, as one document that many may look at.

What a run tells (:mod:`iotrial.live.live`) is only noted.  A thread of its own folds the events
into a picture (:mod:`iotrial.live.picture`), writes it to ``live.json`` in the results folder for
``iotrial status --follow``, and gives it to the page and to ``/metrics`` (``run --live``).
"""

"""Report: everything a comparison says, as data (``view``), and its shapes.

``view`` decides what is said; ``text``, ``markdown``, ``document`` and ``html`` only say it.
Nothing here prints, writes or touches a machine.
"""

"""Statistics: pure; sequences in, frozen results out.

``judge`` turns results into findings; ``power`` says beforehand what a design can resolve;
``summary`` describes the data and doubts them.  One study's way through the package:
``responses`` (which numbers count) → ``contrasts`` (what is compared) → ``blocks`` (estimates)
→ ``simultaneous`` (critical value) → ``verdict`` → ``judge`` → ``recommend`` (words).
"""

MAD_OF_NORMAL = 0.6744897501960817
"""The median absolute deviation of a normal distribution, in standard deviations.  Here, because a
drain needs it before there is anything to judge, and then NumPy is not loaded."""

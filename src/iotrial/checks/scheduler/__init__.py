"""I/O schedulers: every one takes every setting of its queue, and gives it back."""

from iotrial.checks import suite_of

SUITE = suite_of(__name__, "I/O schedulers take and give back every setting")

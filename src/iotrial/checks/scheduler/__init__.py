"""I/O schedulers: every one takes every setting of its queue, and gives it back."""

TITLE = "I/O schedulers take and give back every setting"

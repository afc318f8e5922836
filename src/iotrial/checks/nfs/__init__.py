"""nfs: a server (the first host) and a client (the second), whose export is made for each case."""

from iotrial.checks import suite_of

SUITE = suite_of(
    __name__,
    "nfs: what was asked for is in force, and a server that restarts loses nothing",
    ("mount.nfs",),
)

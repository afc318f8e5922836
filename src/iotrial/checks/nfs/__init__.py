"""nfs: a server (the first host) and a client (the second), whose export is made for each case."""

TITLE = "nfs: what was asked for is in force, and a server that restarts loses nothing"
TOOLS = ("mount.nfs",)

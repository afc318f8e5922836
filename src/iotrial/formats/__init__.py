"""Bytes to measurements: what tools wrote, in every version of theirs.  Pure; needs no tool."""

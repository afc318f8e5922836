"""Formats that only results of other tools, and of former days, need."""

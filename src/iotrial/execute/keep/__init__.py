"""Keeping settings on hosts: files and live values, put in place together and undone together."""

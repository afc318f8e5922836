"""Checks on hosts: cases of suites are played, bounded in time, with evidence, and undone."""

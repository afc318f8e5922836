"""Functional and stress tests of storage: suites, their cases, and what plays them on hosts.

A wing of iotrial: the core does not import it, and works without it.
"""

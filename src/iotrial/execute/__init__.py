"""The only package that changes a machine.

Deciding is done elsewhere; what is here reads, writes, waits and keeps books: preflight, journal,
tuning, the load, the sampler, and the runner that strings them together.
"""

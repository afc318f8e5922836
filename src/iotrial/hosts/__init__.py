"""The kinds of host: this machine (``local``), and a kernel in a dictionary (``fake``).

Both keep to :class:`iotrial.model.host.Host` and pass one conformance suite
(``tests/conformance``).  ``places`` says where a host keeps its lock and its journal.
"""

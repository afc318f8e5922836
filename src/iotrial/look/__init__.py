"""Looking at a host: what only reads.  Everything here takes a
:class:`~iotrial.model.host.Reader`."""

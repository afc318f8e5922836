"""The fake host: a kernel in a dictionary.  ``host`` is the host; ``parts`` are the families of
settings that it pretends to have, one file each."""

from iotrial.hosts.fake.host import CrashHow, FakeHost, HostCrashed

__all__ = ["CrashHow", "FakeHost", "HostCrashed"]

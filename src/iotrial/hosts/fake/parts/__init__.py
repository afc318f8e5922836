"""PLUGINS: one file per family of settings that the fake machine pretends to have; see
:mod:`iotrial.hosts.fake.part`."""

"""Keeping what won: which settings, in which native files, and who else would change them.

Pure: a profile in, files out.  :mod:`iotrial.execute.keep.keeping` puts them on a host and takes
them back.
"""

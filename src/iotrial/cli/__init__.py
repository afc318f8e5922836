"""The command line: one verb, one file.  The only package that prints or exits."""

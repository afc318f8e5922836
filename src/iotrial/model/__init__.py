"""The nouns, frozen.  One file each; the glossary is the docstring of :mod:`iotrial`."""

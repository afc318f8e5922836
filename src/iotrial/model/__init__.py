"""The nouns, frozen; the glossary is the docstring of :mod:`iotrial`."""

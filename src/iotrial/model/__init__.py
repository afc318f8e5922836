"""The nouns, frozen; the docstring of :mod:`iotrial` says what each is."""

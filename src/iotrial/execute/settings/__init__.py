"""The law of settings: owed in a journal before they change, read back, and given back."""

"""Tables of numbers, and what their columns are."""

"""What bonnie++ writes: its CSV of every version, and its tables."""

"""What vdbench writes."""

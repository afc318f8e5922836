"""What elbencho writes."""

"""Reports of recordings, one a file."""

"""What IOR and mdtest write."""

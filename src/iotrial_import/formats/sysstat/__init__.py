"""What iostat and sar write."""

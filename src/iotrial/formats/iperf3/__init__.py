"""What iperf3 writes: JSON, JSON streams, text."""

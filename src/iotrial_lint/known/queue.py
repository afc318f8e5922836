"""Names below ``/sys/block/DEVICE/queue/``, and the I/O schedulers that were and are.

Sources: Documentation/ABI/stable/sysfs-block, block/elevator.c; /sys of Linux 6.18.
"""

from __future__ import annotations

FILES = frozenset({
    "add_random", "atomic_write_boundary_bytes", "atomic_write_max_bytes",
    "atomic_write_unit_max_bytes", "atomic_write_unit_min_bytes", "chunk_sectors", "dax",
    "discard_granularity", "discard_max_bytes", "discard_max_hw_bytes", "discard_zeroes_data",
    "dma_alignment", "fua", "hw_sector_size", "independent_access_ranges", "io_poll",
    "io_poll_delay", "io_timeout", "iostats", "iostats_passthrough", "logical_block_size",
    "max_active_zones", "max_discard_segments", "max_hw_sectors_kb", "max_integrity_segments",
    "max_open_zones", "max_sectors_kb", "max_segment_size", "max_segments", "max_write_streams",
    "minimum_io_size", "nomerges", "nr_requests", "nr_zones", "optimal_io_size",
    "physical_block_size", "read_ahead_kb", "rotational", "rq_affinity", "scheduler",
    "stable_writes", "throttle_sample_time", "virt_boundary_mask", "wbt_lat_usec", "write_cache",
    "write_same_max_bytes", "write_zeroes_max_bytes", "write_zeroes_unmap_max_bytes",
    "write_zeroes_unmap_max_hw_bytes", "write_stream_granularity", "zone_append_max_bytes",
    "zone_write_granularity", "zoned", "zoned_qd1_writes",
})  # fmt: skip

TODAY = frozenset({"none", "mq-deadline", "kyber", "bfq"})
"""Schedulers of a kernel from 5.0 on, where all requests go through blk-mq."""

REMOVED = {"cfq": "bfq", "anticipatory": "mq-deadline", "as": "mq-deadline", "noop": "none"}
"""Schedulers of the single queue, gone with it in 5.0 (anticipatory in 2.6.33), and what of today
comes nearest."""

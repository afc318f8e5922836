"""What the columns of vdbench's reports are, and the metrics they hold."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

FLAT_HEAD = ["tod", "timestamp", "Run", "Interval"]
"""The first columns of ``flatfile.html``."""
_MIB, _MS, _PCT = 2.0**20, 1e-3, 0.01
_DEVICES = {
    ("i/o", "rate"): "rate", ("mb/sec", "1024**2"): "mb", ("bytes", "i/o"): "size",
    ("read", "pct"): "read%", ("resp", "time"): "resp", ("read", "resp"): "read_resp",
    ("write", "resp"): "write_resp", ("resp", "max"): "resp_max", ("read", "max"): "read_max",
    ("write", "max"): "write_max", ("resp", "stddev"): "resp_std", ("queue", "depth"): "depth",
    ("cpu%", "sys+u"): "cpu", ("cpu%", "sys"): "cpu_sys",
}  # fmt: skip
FLAT = {
    "rate": "rate", "MB/sec": "mb", "bytes/io": "size", "read%": "read%", "resp": "resp",
    "read_resp": "read_resp", "write_resp": "write_resp", "resp_max": "resp_max",
    "read_max": "read_max", "write_max": "write_max", "resp_std": "resp_std",
    "read_std": "read_std", "write_std": "write_std", "queue_depth": "depth", "cpu_used": "cpu",
    "cpu_kernel": "cpu_sys",
}  # fmt: skip
"""A column of ``flatfile.html`` → what it is."""
VARIED = {
    "xfersize": "xfersize", "threads": "threads", "rdpct": "rdpct", "seekpct": "seekpct",
    "rhpct": "rhpct", "whpct": "whpct", "reqrate": "iorate", "compratio": "compratio",
    "dedupratio": "dedupratio",
}  # fmt: skip
"""A column of ``flatfile.html`` → vdbench's own parameter."""
_GROUPS = {
    "reqstdops": ("ops.rate", "ops.resp"), "cpu%": ("cpu", "cpu_sys"),
    "mb/sec": ("read.mb", "write.mb"), "xfer": ("size",),
}  # fmt: skip
_HALVES = ("rate", "resp")
_METRICS = {
    "rate": ("total.iops", 1.0), "mb": ("total.bw", _MIB), "resp": ("total.lat.mean", _MS),
    "read_resp": ("read.lat.mean", _MS), "write_resp": ("write.lat.mean", _MS),
    "resp_max": ("total.lat.max", _MS), "read_max": ("read.lat.max", _MS),
    "write_max": ("write.lat.max", _MS), "resp_std": ("total.lat.sd", _MS),
    "read_std": ("read.lat.sd", _MS), "write_std": ("write.lat.sd", _MS),
    "depth": ("total.depth", 1.0), "cpu_sys": ("cpu.sys", _PCT),
    "ops.rate": ("total.iops", 1.0), "ops.resp": ("total.lat.mean", _MS),
    "read.rate": ("read.iops", 1.0), "read.resp": ("read.lat.mean", _MS),
    "write.rate": ("write.iops", 1.0), "write.resp": ("write.lat.mean", _MS),
    "read.mb": ("read.bw", _MIB), "write.mb": ("write.bw", _MIB), "total.mb": ("total.bw", _MIB),
    "create.rate": ("create.rate", 1.0), "delete.rate": ("delete.rate", 1.0),
    "mkdir.rate": ("create.dir.rate", 1.0), "rmdir.rate": ("delete.dir.rate", 1.0),
}  # fmt: skip
_ALL = 100.0
_OF_WORK = ("read.", "write.", "total.lat", "create.", "delete.")


def names_of(head: str, below: str) -> list[str]:
    """What the columns after the interval are, by the two lines of a heading; '' for one that is
    not read.  Empty where the two do not fit each other."""
    words = [word.strip(".").lower() for word in head.split()]
    words = words[words.index("interval") + 1 :]
    lower = below.lower().split()
    return _of_files(words, lower) if words[0] == "reqstdops" else _of_devices(words, lower)


def _of_devices(words: list[str], below: list[str]) -> list[str]:
    if len(words) != len(below):
        return []
    return [_DEVICES.get(pair, "") for pair in zip(words, below, strict=True)]


def _of_files(words: list[str], below: list[str]) -> list[str]:
    """Of each group two columns, but one of ``read pct``, ``mb/sec total`` and ``xfer size``."""
    names: list[str] = []
    for word in words:
        if word == "read" and below[len(names) : len(names) + 1] == ["pct"]:
            names.append("read%")
        elif word == "mb/sec" and "read.mb" in names:
            names.append("total.mb")
        else:
            names += _GROUPS.get(word, [f"{word}.{half}" for half in _HALVES])
    return names if len(names) == len(below) else []


def metrics(values: Mapping[str, float]) -> Iterator[tuple[str, float]]:
    """Metric and value in base units; what was not done is left out."""
    for name, value in values.items():
        if name not in _METRICS:
            continue
        wanted, scale = _METRICS[name]
        if not value and wanted.startswith(_OF_WORK):
            continue
        yield wanted, value * scale
    if "cpu" in values and "cpu_sys" in values:
        yield "cpu.usr", max(0.0, values["cpu"] - values["cpu_sys"]) * _PCT
    share = values.get("read%")
    if share in (0.0, _ALL) and "rate" in values:
        side = "read" if share else "write"
        yield f"{side}.iops", values["rate"]
        if "mb" in values:
            yield f"{side}.bw", values["mb"] * _MIB

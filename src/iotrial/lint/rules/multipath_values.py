"""Values that multipathd does not take."""

from __future__ import annotations

from collections.abc import Iterator

from iotrial.lint.known import nearest
from iotrial.lint.rule import Rule, Said, Scene, at
from iotrial.lint.sheet import Sheet

_YES = ("yes", "no", "1", "0")
_CHOICES: dict[str, tuple[str, ...]] = {
    "path_grouping_policy": (
        *("failover", "multibus", "group_by_serial", "group_by_prio", "group_by_node_name"),
        "group_by_tpg",
    ),
    "path_checker": (
        *("readsector0", "tur", "emc_clariion", "hp_sw", "rdac", "directio", "cciss_tur", "none"),
    ),
    "rr_weight": ("uniform", "priorities"),
    "find_multipaths": ("off", "on", "no", "yes", "0", "1", "strict", "greedy", "smart"),
    "user_friendly_names": _YES,
    "detect_prio": _YES,
    "detect_checker": _YES,
    "queue_without_daemon": ("yes", "no", "forced"),
    "log_checker_err": ("once", "always"),
}
_OR_NUMBER: dict[str, tuple[str, ...]] = {
    "no_path_retry": ("fail", "queue"),
    "failback": ("manual", "immediate", "followover"),
    "fast_io_fail_tmo": ("off",),
    "dev_loss_tmo": ("infinity",),
    "rr_min_io": (),
    "rr_min_io_rq": (),
    "polling_interval": (),
    "max_fds": ("max",),
}
_SELECTORS = (
    "round-robin 0",
    "queue-length 0",
    "service-time 0",
    "historical-service-time 0",
    "io-affinity",
)


def _judge(sheet: Sheet, _scene: Scene) -> Iterator[Said]:
    for entry in sheet.entries:
        words = _CHOICES.get(entry.key) or _OR_NUMBER.get(entry.key)
        number = entry.key in _OR_NUMBER and entry.value.isdecimal()
        if entry.key == "path_selector":
            words = _SELECTORS
        if words is None or number or entry.value in words or not entry.value:
            continue
        if entry.key == "path_selector" and entry.value.startswith(_SELECTORS):
            continue  # with arguments
        taken = ", ".join((*words, *(("a number",) if entry.key in _OR_NUMBER else ())))
        near = nearest(entry.value, words, 0.6)
        what = f"{entry.value!r} is not one of {taken}"
        yield at(entry, what, f'{entry.key} "{near}"' if near else "")


RULE = Rule(
    "multipath-values",
    "a value that multipath does not take",
    "error",
    ("multipath",),
    "multipathd says so once in its log, and takes its default.",
    "multipath.conf(5); libmultipath/dict.c",
    "Take one of them.",
    _judge,
)

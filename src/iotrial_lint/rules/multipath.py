"""What multipath.conf says of paths and maps."""

from __future__ import annotations

from collections.abc import Iterator

from iotrial_lint.known import Keyword, keywords, names_in, nearest, sections_of
from iotrial_lint.rule import (
    ConfigFile,
    ConfigLine,
    LintContext,
    RuleMessage,
    at,
    rule,
    since,
    spelled,
    whole,
)


@rule(
    "multipath-alias-twice",
    "two maps of one name",
    "error",
    ("multipath",),
    reason=(
        "The second map gets another name, and which of them is second is decided again at each"
        " boot."
    ),
    source="multipath.conf(5): alias",
    fix="Give each map a name of its own.",
)
def multipath_alias_twice(sheet: ConfigFile, _scene: LintContext) -> Iterator[RuleMessage]:
    """Two maps with the same alias."""
    for entry in sheet.entries:
        if entry.section == ("multipaths", "multipath") and entry.key == "alias":
            same = [
                other
                for other in sheet.entries
                if other.key == "alias" and other.value == entry.value and other.line < entry.line
            ]
            if same:
                yield at(entry, f"the map of line {same[0].group} is called {entry.value!r} too")


_SECTIONS_MULTIPATH_BLACKLISTS_ALL = (("blacklist",), ("devnode_blacklist",))

_EVERYTHING = ("*", ".*", "^.*", "^.*$", ".+", "^.+$", ".", "^", "")

"""Regular expressions that each name matches.  For regcomp() a star at the beginning repeats
nothing, which is everywhere."""


def everything(
    sheet: ConfigFile, scene: LintContext
) -> Iterator[tuple[ConfigLine, frozenset[str], frozenset[str]]]:
    """Each entry that blacklists all devices, with the keys that there are exceptions by (of all
    files that are judged at once), and those of them that lift it."""
    sheets = [each for each in scene.sheets if each.kind == "multipath"]
    exceptions = frozenset(
        entry.key if len(entry.section) == 1 else entry.section[1]
        for each in (*sheets, sheet)
        for entry in each.entries
        if entry.section[:1] == ("blacklist_exceptions",)
    )
    for entry in sheet.entries:
        listed = entry.section in _SECTIONS_MULTIPATH_BLACKLISTS_ALL and entry.key in (
            "wwid",
            "devnode",
        )
        if listed and entry.value in _EVERYTHING:
            yield entry, exceptions, exceptions & {entry.key}


@rule(
    "multipath-blacklists-all",
    "a blacklist of every device",
    "warning",
    ("multipath",),
    reason=(
        "Each disk is then used by one path, whatever stands in the other sections: what is"
        " measured is that path, and when it fails the I/O fails.  An exception lifts only what was"
        " blacklisted by the same keyword."
    ),
    source=(
        "multipath.conf(5): blacklist section, blacklist_exceptions section;"
        " libmultipath/blacklist.c"
    ),
    fix="Take the line out; `find_multipaths strict` leaves disks with one path alone.",
)
def multipath_blacklists_all(sheet: ConfigFile, scene: LintContext) -> Iterator[RuleMessage]:
    """A blacklist that leaves multipath nothing."""
    for entry, exceptions, lifting in everything(sheet, scene):
        if lifting:
            continue
        what = f'{entry.key} "{entry.value}" is every device: multipath makes no map'
        if exceptions:
            others = " and ".join(sorted(exceptions))
            what += f"; exceptions by {others} lift no blacklist by {entry.key}"
        yield at(entry, what)


@rule(
    "multipath-loss-before-fail",
    "dev_loss_tmo not above fast_io_fail_tmo",
    "error",
    ("multipath",),
    reason=(
        "multipath switches fast_io_fail_tmo off then, with a line in its log: I/O waits until the"
        " port is removed.  The kernel refuses such a pair too."
    ),
    source=(
        "multipath.conf(5): fast_io_fail_tmo; libmultipath/discovery.c: sysfs_set_scsi_tmo();"
        " drivers/scsi/scsi_transport_fc.c: store_fc_rport_fast_io_fail_tmo()"
    ),
    fix="Let dev_loss_tmo be large (infinity where I/O waits for paths).",
)
def multipath_loss_before_fail(sheet: ConfigFile, _scene: LintContext) -> Iterator[RuleMessage]:
    """A path that goes before its I/O may fail."""
    for group in sheet.groups():
        keys = {entry.key: entry for entry in group}
        fail, loss = keys.get("fast_io_fail_tmo"), keys.get("dev_loss_tmo")
        if fail and loss:
            yield from _compared(fail, loss)


def _compared(fail: ConfigLine, loss: ConfigLine) -> Iterator[RuleMessage]:
    first, last = whole(fail.value), whole(loss.value)
    if first is not None and last is not None and last <= first:
        what = f"{loss.value} s is not above fast_io_fail_tmo = {fail.value} s"
        yield at(loss, what, "dev_loss_tmo infinity")


@rule(
    "multipath-min-io",
    "rr_min_io where rr_min_io_rq counts",
    "warning",
    ("multipath",),
    reason=(
        "rr_min_io is for maps that take bios (features `queue_mode bio`).  The others, which is"
        " the default, read rr_min_io_rq; and both count for the round-robin selector only."
    ),
    source="multipath.conf(5): rr_min_io, rr_min_io_rq",
    fix="rr_min_io_rq",
)
def multipath_min_io(sheet: ConfigFile, scene: LintContext) -> Iterator[RuleMessage]:
    """rr_min_io on maps of requests."""
    if not since(scene, 2, 6, 31):
        return
    for group in sheet.groups():
        by_bios = any("queue_mode bio" in each.value for each in group if each.key == "features")
        both = any(each.key == "rr_min_io_rq" for each in group)
        for entry in group:
            if entry.key == "rr_min_io" and not by_bios and not both:
                what = "maps take requests from 2.6.31 on, and read rr_min_io_rq"
                yield at(entry, what, f"rr_min_io_rq {entry.value}")


@rule(
    "multipath-only-listed",
    "only devices that are listed are multipathed",
    "note",
    ("multipath",),
    reason=(
        "A new disk has one path until it is listed, without a warning.  With few disks"
        " this may be intended."
    ),
    source="multipath.conf(5): blacklist section, blacklist_exceptions section",
    fix=(
        "`find_multipaths strict` instead, or see that each disk under test is listed: multipath"
        " -ll."
    ),
)
def multipath_only_listed(sheet: ConfigFile, scene: LintContext) -> Iterator[RuleMessage]:
    """A blacklist of every device, with exceptions."""
    for entry, _, lifting in everything(sheet, scene):
        if lifting:
            what = f'{entry.key} "{entry.value}" is every device: only those that'
            yield at(entry, f"{what} blacklist_exceptions names by {entry.key} get a map")


@rule(
    "multipath-queues-forever",
    "queue_if_no_path, or no_path_retry queue",
    "note",
    ("multipath",),
    reason=(
        "I/O that waits for paths cannot be ended: a node of a cluster can then neither fail over"
        " nor unmount.  Where there is no cluster it may be what is wanted."
    ),
    source="multipath.conf(5): no_path_retry, features",
    fix="no_path_retry N: N times polling_interval, then errors.",
)
def multipath_queues_forever(sheet: ConfigFile, _scene: LintContext) -> Iterator[RuleMessage]:
    """I/O that waits without end for a path."""
    for group in sheet.groups():
        keys = {entry.key: entry for entry in group}
        retry, features = keys.get("no_path_retry"), keys.get("features")
        if retry and retry.value == "queue":
            yield at(retry, "without a path I/O waits without end", "no_path_retry 12")
        elif features and not retry and "queue_if_no_path" in features.value:
            yield at(features, "without a path I/O waits without end", "no_path_retry 12")


_INSTEAD = {
    "getuid_callout": 'uid_attribute "ID_SERIAL"',
    "default_getuid_callout": 'uid_attribute "ID_SERIAL"',
    "prio_callout": 'prio "alua"',
    "default_prio_callout": 'prio "alua"',
    "selector": 'path_selector "service-time 0"',
    "default_selector": 'path_selector "service-time 0"',
    "default_features": "features",
    "default_path_checker": "path_checker",
    "default_path_grouping_policy": "path_grouping_policy",
    "default_uid_attribute": "uid_attribute",
    "devnode_blacklist": "blacklist",
    "disable_changed_wwids": "recheck_wwid yes",
}

_RENAMED = ("selector", "default_selector")


@rule(
    "multipath-removed",
    "a keyword that multipath ignores now",
    "error",
    ("multipath",),
    reason=(
        "multipathd says so once in its log.  Identities come from udev, priorities from prio:"
        " what the line was for is decided elsewhere."
    ),
    source=(
        "multipath-tools, libmultipath/dict.c of each release from 0.4.5 to 0.14.3;"
        " multipath.conf(5)"
    ),
    fix="Take the line out.",
)
def multipath_removed(sheet: ConfigFile, scene: LintContext) -> Iterator[RuleMessage]:
    """Keywords that multipathd ignores now."""
    for entry in sheet.entries:
        known = keywords().get(("/".join(entry.section), entry.key))
        if known and known.until and (not scene.multipath or scene.multipath >= known.until):
            what = f"multipath-tools ignores it from {spelled(known.until)} on"
            yield at(entry, what, _today(entry, known))
    for line, section in sheet.sections:
        if section == "devnode_blacklist" and (not scene.multipath or scene.multipath >= (0, 9, 0)):
            yield RuleMessage(line, section, "the section is called blacklist", "blacklist {")


def _today(entry: ConfigLine, known: Keyword) -> str:
    instead = _INSTEAD.get(known.name, "")
    if known.name in _RENAMED or (known.name.startswith("default_") and " " not in instead):
        return f'{instead.partition(" ")[0]} "{entry.value}"' if instead else ""
    return instead or "Take the line out."


@rule(
    "multipath-retry-twice",
    "queue_if_no_path beside no_path_retry",
    "warning",
    ("multipath",),
    reason=(
        "The feature and no_path_retry set the same; multipath takes the feature out where"
        " no_path_retry is set."
    ),
    source=(
        "multipath.conf(5): features, no_path_retry; libmultipath/propsel.c:"
        " reconcile_features_with_options()"
    ),
    fix="Keep no_path_retry.",
)
def multipath_retry_twice(sheet: ConfigFile, _scene: LintContext) -> Iterator[RuleMessage]:
    """Waiting for paths, said twice."""
    for group in sheet.groups():
        keys = {entry.key: entry for entry in group}
        retry, features = keys.get("no_path_retry"), keys.get("features")
        if retry and features and "queue_if_no_path" in features.value:
            what = f"no_path_retry = {retry.value} stands beside it, and wins"
            yield at(features, what, 'features "0"')


_SECTIONS_MULTIPATH_UNKNOWN = frozenset({
    "defaults", "blacklist", "blacklist_exceptions", "devices", "multipaths", "overrides",
    "devnode_blacklist",
})  # fmt: skip


@rule(
    "multipath-unknown",
    "a keyword that multipath does not know",
    "error",
    ("multipath",),
    reason="multipathd logs `invalid keyword` once, and ignores the line.",
    source="multipath-tools 0.4.5 to 0.14.3, libmultipath/dict.c; multipath.conf(5)",
    fix="Take the real keyword, in its section.",
)
def multipath_unknown(sheet: ConfigFile, _scene: LintContext) -> Iterator[RuleMessage]:
    """Keywords that multipathd never knew, or not in that section."""
    for line, section in sheet.sections:
        head, _, name = section.rpartition("/")
        if not head and name not in _SECTIONS_MULTIPATH_UNKNOWN:
            near = nearest(name, _SECTIONS_MULTIPATH_UNKNOWN, 0.7)
            yield RuleMessage(line, name, "unknown section" + _hint(near))
        elif head and head in _SECTIONS_MULTIPATH_UNKNOWN and (head, name) not in keywords():
            near = nearest(name, names_in(head), 0.7)
            yield RuleMessage(line, name, f"unknown section {name} in {head}" + _hint(near))
    for entry in sheet.entries:
        place = "/".join(entry.section)
        known = names_in(place)
        if not known or entry.key in known:
            continue
        elsewhere = sections_of(entry.key)
        if elsewhere:
            yield at(entry, f"it belongs into {' or '.join(elsewhere)}, not into {place}")
        else:
            yield at(
                entry, "multipath knows no such keyword" + _hint(nearest(entry.key, known, 0.75))
            )


def _hint(near: str) -> str:
    return f"; the nearest is {near}" if near else ""


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


@rule(
    "multipath-values",
    "a value that multipath does not take",
    "error",
    ("multipath",),
    reason="multipathd says so once in its log, and takes its default.",
    source="multipath.conf(5); libmultipath/dict.c",
    fix="Use one of them.",
)
def multipath_values(sheet: ConfigFile, _scene: LintContext) -> Iterator[RuleMessage]:
    """Values that multipathd does not take."""
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

"""Family ``multipath``: dm-multipath, through its daemon.

What the daemon decides is changed by a file of our own, ``/etc/multipath/conf.d/iotrial-KEY.conf``,
and a reconfigure.  It says ``overrides``, not ``defaults``: the built-in table of devices wins over
``defaults`` (LIO-ORG gets group_by_prio whatever they say), ``overrides`` win over it; only the
section ``multipaths`` of an administrator wins over both.  A file of this name is never an
administrator's, so the way back is to take it away: the value is ``unset`` where there is none.

*Reading back* asks the daemon, not the file: with our file there, the value is what the merged
configuration of ``multipathd show config`` says.  *Taking away* goes in three steps (empty the
file, reconfigure, remove it), so that a death in between is seen: while the file is there the value
is not ``unset``.  A reconfigure is waited for: the daemon does it after it has answered.

Sources: multipath.conf(5), multipathd(8), multipathd/{main,cli_handlers}.c and
libmultipath/{config,print}.c of multipath-tools 0.9.4 and 0.14.3.  That 0.9.4 merges such files so
was seen with its ``multipath -t`` (tests/data/multipath), and that a running daemon takes them over
and gives them back in a virtual lab, of two keys; what a reconfigure costs under load was **not
measured**.  Where multipathd.socket is enabled,
asking a daemon that does not run starts it.

Left out on purpose: ``rr_min_io`` (of bio-based maps; those of kernels since 2.6.31 are
request-based and take ``rr_min_io_rq``), ``features`` and ``hardware_handler`` (a wrong word and
the map is not made), ``max_fds`` (counts when the daemon starts).  Where an empty folder
/etc/multipath/conf.d had to be made for our file, it stays.
"""

from __future__ import annotations

from collections.abc import Callable

from iotrial.errors import UsageError
from iotrial.model.step import Change
from iotrial.model.tunable import Domain, Tunable, literal

FAMILY = "multipath"
TITLE = "dm-multipath: path selection, queueing without a path, checks, fail-back"

UNSET = "unset"
_UINT = 2**32 - 1
FOLDER = "/etc/multipath/conf.d"

_LOOK = """\
said=$(multipathd show config) || exit
[ -e "$1" ] || { echo unset; exit; }
value="s/\\"//g;s/^[[:space:]]$3[[:space:]]\\{1,\\}//p"
said=$(printf '%s\\n' "$said" | sed -n "/^$2 {/,/^}/{$value;}")
echo "${said:-pending}"
"""
"""Arguments: our file, section, key.  ``unset`` without our file, else what the daemon has."""

_RECONFIGURE = """\
multipathd reconfigure || exit
quiet=0 tries=0
while [ $quiet -lt 2 ]; do
    [ $tries -lt 100 ] || { echo 'multipathd is not done reconfiguring after 20 s' >&2; exit 1; }
    tries=$((tries + 1))
    sleep 0.2
    case $(multipathd show daemon) in
        *idle*) quiet=$((quiet + 1)) ;;
        *) quiet=0 ;;
    esac
done
"""
"""Twice idle: between a tick of the path checkers and a reconfigure put off it is idle too."""

_QUEUEING = """\
case " $(dmsetup table "${1:?}") " in
    *' queue_if_no_path '*) echo 1 ;;
    *' multipath '*) echo 0 ;;
    *) exit 1 ;;
esac
"""
"""Argument: the map.  What the kernel does with I/O when no path is left."""

_HEAD = "# for a trial; `iotrial restore` takes it away\n"
_CONF = "multipath.conf(5)"
_HELD = frozenset({"path_selector", "no_path_retry"})
"""Keys that a running daemon held and gave back, in tests/vm."""
_LASTS = "until our file is removed: also over a reboot"
_EVERY = (
    "Holds for every map of the machine, except where a section `multipaths` or a `protocol`"
    " in `overrides`, or a file of conf.d later in the alphabet, says otherwise (then reading"
    " back catches it or, for `multipaths`, `multipathd show map MAP topology` shows it)."
    " Reconfiguring reloads changed maps and forgets `multipathd disablequeueing`."
)
_ONE_PATH = "The map has one path."
_NO_ERRORS = "No path fails during the trial."

DomainOf = Callable[[bytes], Domain]


def file(key: str) -> str:
    """The file of ours that sets ``key``."""
    return f"{FOLDER}/iotrial-{key}.conf"


def _acts(section: str, key: str) -> Callable[[str, str], tuple[Change, ...]]:
    reconfigure = Change("run", argv=("sh", "-c", _RECONFIGURE, "iotrial-reconfigure"))

    def acts(_device: str, value: str) -> tuple[Change, ...]:
        mine = file(key)
        if value == UNSET:
            given_back = Change("save", path=mine, data="# iotrial is giving this setting back\n")
            return (given_back, reconfigure, Change("remove", path=mine))
        if problem := _problem(value):
            raise UsageError(f"multipath.{key}: {problem}", advice="Remove it from the study.")
        text = f'{_HEAD}{section} {{\n\t{key} "{value}"\n}}\n'
        return (Change("save", path=mine, data=text), reconfigure)

    return acts


def _one_of(*choices: str) -> DomainOf:
    return lambda _raw: Domain(choices=(*choices, UNSET))


def _problem(value: str) -> str:
    if '"' in value or not value.isprintable():
        return f"{value!r} cannot stand in a multipath.conf: it has a quote or a control character"
    return ""


def _anything(_raw: bytes) -> Domain:
    return Domain(rule=_problem)


def _number(low: int, *words: str) -> DomainOf:
    return lambda _raw: Domain(low=low, high=_UINT, words=(*words, UNSET))


def _seen(key: str) -> str:
    return (
        "a running 0.9.4 held it and gave it back"
        if key in _HELD
        else "not tried on a running daemon"
    )


def _key(  # noqa: PLR0913 (a row of a table)
    key: str,
    summary: str,
    domain: DomainOf = _anything,
    *,
    unit: str = "",
    section: str = "overrides",
    moves: tuple[str, ...] = (),
    risk: str = "",
    moot: str = "",
) -> Tunable:
    return Tunable(
        f"multipath.{key}",
        file(key),
        f"{summary}; unset: as configured",
        unit=unit,
        layer="multipath",
        lasts=_LASTS,
        durable=True,
        risk=f"{risk} {_EVERY}".strip(),
        moot=moot,
        source=f"{_CONF}; merging seen with multipath -t of 0.9.4; {_seen(key)}",
        rank=20,
        moves=("multipath.queue_if_no_path", *moves),
        scope="host",
        domain=domain,
        read=("sh", "-c", literal(_LOOK), "iotrial-multipath", file(key), section, key),
        how=_acts(section, key),
    )


_PORTS = ("scsi.dev_loss_tmo", "scsi.fast_io_fail_tmo", "scsi.recovery_tmo")
_WRITTEN = "The daemon writes it to every port; taking it back does not write the former value."


# The daemon goes by what it knew of the map's table: soon after `disablequeueing` it does nothing
# until it checks paths next, 5 to 20 s later.  To show maps it reads the tables anew (seen with
# 0.9.4; `show map` does not).
_RESTORE = """\
multipathd show maps raw format %n >/dev/null || exit
multipathd restorequeueing map "${1:?}"
"""
"""Argument: the map."""


def _queueing(device: str, value: str) -> tuple[Change, ...]:
    if value == "1":
        return (Change("run", argv=("sh", "-c", _RESTORE, "iotrial-queues", device)),)
    return (Change("run", argv=("multipathd", "disablequeueing", "map", device)),)


TUNABLES: tuple[Tunable, ...] = (
    Tunable(
        "multipath.queue_if_no_path",
        "/dev/mapper/{device}",
        "whether I/O waits (1) or fails (0) when the map has no path left",
        layer="multipath",
        scope="map",
        rank=60,
        lasts="until the daemon reconfigures, the map is reloaded, or the machine reboots",
        domain=lambda _raw: Domain(choices=("0", "1")),
        risk=(
            "1 can hang every process that touches the map, for ever; 0 fails what waits at"
            " that moment. 1 goes back to what is configured: where that is no_path_retry fail,"
            " it stays 0, and reading back says so."
        ),
        moot=_NO_ERRORS,
        source=(
            "multipathd(8) disablequeueing, restorequeueing; drivers/md/dm-mpath.c"
            " multipath_status(): the table shows the state now; held and restored on 6.1 with"
            " multipath-tools 0.9.4"
        ),
        read=("sh", "-c", literal(_QUEUEING), "iotrial-queueing", "{device}"),
        how=_queueing,
    ),
    _key(
        "path_selector",
        "how the next path of a group is chosen",
        _one_of(
            "round-robin 0",
            "queue-length 0",
            "service-time 0",
            "historical-service-time 0",
            "io-affinity 0",
        ),
        moot=f"{_ONE_PATH} Or every group has one.",
        risk="The module dm-NAME must be there, else the map cannot be reloaded.",
    ),
    _key(
        "path_grouping_policy",
        "which paths are used together",
        _one_of(
            "failover",
            "multibus",
            "group_by_serial",
            "group_by_prio",
            "group_by_node_name",
            "group_by_tpg",
        ),
        risk="multibus on an array with a preferred controller makes its volumes ping-pong.",
        moot=_ONE_PATH,
    ),
    _key(
        "rr_min_io_rq",
        "how many requests go down one path before the next is chosen",
        _number(1),
        unit="requests",
        risk="The old name rr_min_io is of bio-based maps and does nothing since 2.6.31.",
        moot=f"{_ONE_PATH} Or the selector is not round-robin.",
    ),
    _key(
        "rr_weight",
        "whether rr_min_io_rq is multiplied by a path's priority",
        _one_of("uniform", "priorities"),
        moot=f"{_ONE_PATH} Or the selector is not round-robin.",
    ),
    _key(
        "no_path_retry",
        "how many checks I/O waits for a path: a number, queue (for ever) or fail",
        _number(1, "queue", "fail"),
        risk="queue can hang every process that touches a map, for ever.",
        moot=_NO_ERRORS,
    ),
    _key(
        "path_checker",
        "how a path is found to be alive",
        _one_of("tur", "directio", "readsector0", "rdac", "emc_clariion", "hp_sw", "none"),
        risk="none never finds a dead path. With detect_checker yes, ALUA arrays get tur anyway.",
        moot="Paths are checked rarely: only its share of the load differs.",
    ),
    _key(
        "detect_checker",
        "whether arrays that speak ALUA get their checker whatever path_checker says",
        _one_of("yes", "no"),
    ),
    _key("prio", "where the priority of a path comes from", moot=_ONE_PATH),
    _key(
        "detect_prio",
        "whether arrays that speak ALUA get their priorities whatever prio says",
        _one_of("yes", "no"),
        moot=_ONE_PATH,
    ),
    _key(
        "failback",
        "when I/O goes back to a better group: immediate, manual, followover, or after seconds",
        _number(1, "immediate", "manual", "followover"),
        moot=f"{_NO_ERRORS} Or the map has one group.",
    ),
    _key(
        "polling_interval",
        "how often paths are checked",
        _number(1),
        unit="s",
        section="defaults",
        risk="Each check is an I/O on each path.",
        moot="Few paths: the checks are not measurable.",
    ),
    _key(
        "fast_io_fail_tmo",
        "how long I/O to a lost port is held before it fails; seconds, or off",
        _number(0, "off"),
        unit="s",
        moves=_PORTS,
        risk=_WRITTEN,
        moot=_NO_ERRORS,
    ),
    _key(
        "dev_loss_tmo",
        "how long a lost port is waited for before its disks go; seconds, or infinity",
        _number(1, "infinity"),
        unit="s",
        moves=_PORTS,
        risk=_WRITTEN,
        moot=_NO_ERRORS,
    ),
    _key(
        "eh_deadline",
        "after how long error handling skips to a reset of the adapter; seconds, or off",
        _number(0, "off"),
        unit="s",
        moves=("scsi.host.eh_deadline",),
        risk=_WRITTEN,
        moot=_NO_ERRORS,
    ),
)


def section_of(key: str) -> str:
    """The section of a multipath.conf in which ``key`` counts ('': none of these rows)."""
    rows = (row for row in TUNABLES if row.scope == "host")
    return next((row.read[-2] for row in rows if row.read[-1] == key), "")

"""Tunable: one knob.  Setting: a tunable at a value on a device.

A tunable never calls a host.  It says, as data, where its value is read and how it is changed;
packages that act (``iotrial.execute``) do the rest and can therefore batch, order and journal.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches

from iotrial.errors import UsageError
from iotrial.model.step import Change, Pick, Probe
from iotrial.model.target import Scope, Topology


@dataclass(frozen=True, slots=True)
class Domain:
    """What a tunable takes here.  ``choices`` (empty: not a choice), ``low``/``high`` inclusive
    bounds (None: unknown), ``words`` are taken besides such numbers, ``aliases`` maps an accepted
    spelling to what it becomes, ``rule`` says of a value why it is refused, or '' (it has another
    form than the one that is read back; nothing at all is taken here)."""

    choices: tuple[str, ...] = ()
    low: int | None = None
    high: int | None = None
    aliases: tuple[tuple[str, str], ...] = ()
    words: tuple[str, ...] = ()
    rule: Callable[[str], str] | None = None

    def refusal(self, value: str) -> str:
        """Why ``value`` is outside, or an empty string."""
        if self.rule is not None and (why := self.rule(value)):
            return why
        if value in self.words:
            return ""
        if self.choices and value not in self.choices:
            became = dict(self.aliases).get(value)
            if became:
                return f"the name of {value!r} on this host is {became!r}"
            near = get_close_matches(value, self.choices, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            return f"{value!r} is not one of {', '.join(self.choices)}{hint}"
        return self._out_of_bounds(value)

    def _out_of_bounds(self, value: str) -> str:
        if self.low is None and self.high is None:
            return ""
        try:
            number = int(value)
        except ValueError:
            return f"{value!r} is not a whole number"
        if self.low is not None and number < self.low:
            return f"{number} is below {self.low}"
        if self.high is not None and number > self.high:
            return f"{number} is above {self.high}"
        return ""


_WILD = frozenset("*?[")
_INTERFACE = r"(?![-.])[^/:\s\x00-\x1f\x7f]{1,15}"
_NAMES: dict[Scope, re.Pattern[str]] = {
    "nic": re.compile(_INTERFACE),
    "rx": re.compile(rf"{_INTERFACE}/queues/rx-[0-9]+"),
    "tx": re.compile(rf"{_INTERFACE}/queues/tx-[0-9]+"),
    "irq": re.compile("[0-9]+"),
    **dict.fromkeys(("device", "disk", "array"), re.compile(r"[A-Za-z][A-Za-z0-9!._-]*")),
    "scsi-host": re.compile("host[0-9]+"),
    "nvme": re.compile("nvme[0-9]+"),
    "remote-port": re.compile("rport-[0-9]+:[0-9]+-[0-9]+"),
    "iscsi-session": re.compile("session[0-9]+"),
    **dict.fromkeys(("map", "crypt"), re.compile(r"(?![-.])[A-Za-z0-9+_.:#%@-]+")),
    "volume": re.compile(r"(?![-.])[A-Za-z0-9+_.-]+/(?![-.])[A-Za-z0-9+_.-]+"),
    "mount": re.compile(r"/[^\x00-\x1f\x7f]*"),
    **dict.fromkeys(("bdi", "cgroup"), re.compile("[0-9]+:[0-9]+")),
    "cpu": re.compile("cpu[0-9]+"),
}
"""What names look like.  Of an interface as net/core/dev.c dev_valid_name() wants it, and not such
that a program takes it for an option."""


def literal(text: str) -> str:
    """A text as a word of a tunable's commands, which are formats (``{device}``): its own braces
    stay braces."""
    return text.replace("{", "{{").replace("}", "}}")


def _anything(_raw: bytes) -> Domain:
    return Domain()


@dataclass(frozen=True, slots=True)
class Tunable:
    """One knob of a family; a row in the family's table.

    Read: the file ``path``, or what the command ``read`` prints; ``pick``, ``key`` and ``absent``
    as in :class:`~iotrial.model.step.Probe`.  Changed: by writing the value to ``path``, by the
    commands ``change``, or by what ``how(device, value)`` gives back; ``back(device, value)`` is
    how a former value is given back, where that is not the same as setting it.  In ``path``,
    ``key``, ``read`` and ``change``, ``{device}`` is the name of what the tunable belongs to (empty
    for the host's), in ``change`` also ``{value}``; each word of a command stays one word.

    ``rank`` orders writes: a lower rank is written first, in apply and in restore alike, because
    what it moves has a higher rank.  ``moves`` are patterns (fnmatch) of tunable names whose value
    a write to this one may change.  ``domain`` gets what was read.  ``reload`` says why a value
    cannot be changed while the machine runs ('': it can): such a tunable is no factor of a trial.
    ``durable``: it outlives a reboot, so that it is owed after one too.  ``boot``: nothing writes
    it; the host is booted with it (:mod:`iotrial.execute.boot`).
    ``means`` says in words what an errno means that the kernel refuses a change with.

    A level may be a rule instead of a value: ``place(level, devices, topology)`` then gives for
    each device the value at which the tunable ``sets`` is put there.  Such a row is not written
    itself; it raises SettingRefused for a rule that the topology has no place for.
    """

    name: str
    path: str
    summary: str
    unit: str = ""
    layer: str = "block"
    lasts: str = "until the device is removed or the host reboots"
    risk: str = ""
    moot: str = ""
    source: str = ""
    rank: int = 50
    moves: tuple[str, ...] = ()
    scope: Scope = "device"
    domain: Callable[[bytes], Domain] = field(default=_anything)
    read: tuple[str, ...] = ()
    pick: Pick = "text"
    key: str = ""
    absent: str = ""
    change: tuple[tuple[str, ...], ...] = ()
    how: Callable[[str, str], tuple[Change, ...]] | None = None
    back: Callable[[str, str], tuple[Change, ...]] | None = None
    reload: str = ""
    durable: bool = False
    boot: bool = False
    means: tuple[tuple[int, str], ...] = ()
    sets: str = ""
    place: Callable[[str, Sequence[str], Topology], Mapping[str, str]] | None = None
    _probes: dict[str, Probe] = field(default_factory=dict, init=False, compare=False, repr=False)

    @property
    def written(self) -> str:
        """The name of the tunable that a level of this one writes."""
        return self.sets or self.name

    def placed(self, level: str, devices: Sequence[str], below: Topology) -> tuple[Setting, ...]:
        """What a level comes to on each of these devices.  Raises SettingRefused."""
        if self.place is None:
            return tuple(Setting(device, self.name, level) for device in devices)
        found = self.place(level, devices, below)
        return tuple(Setting(device, self.sets, value) for device, value in found.items())

    def device_problem(self, device: str) -> str:
        """Why ``device`` cannot be the name of what this belongs to, or ''.

        A name comes from a study or a host, and goes into a path and into commands."""
        form = _NAMES.get(self.scope)
        if form is None or form.fullmatch(device):
            return ""
        return f"no {self.scope} is named {device!r}"

    def _named(self, device: str) -> str:
        problem = self.device_problem(device)
        if problem:
            raise UsageError(
                f"{self.name}: {problem}",
                advice="Use the kernel name: `iotrial doctor` lists the names.",
            )
        return device

    def probe(self, device: str) -> Probe:
        """Where its value on ``device`` is read.  Raises UsageError for a name that is none.

        It follows from this row and the name alone, and is asked for around each trial of each
        host: so it is made once."""
        known = self._probes.get(device)
        if known is None:
            known = self._probes[device] = self._probe(device)
        return known

    def _probe(self, device: str) -> Probe:
        self._named(device)
        return Probe(
            path="" if self.read else self.path.format(device=device),
            argv=tuple(word.format(device=device) for word in self.read),
            pick=self.pick,
            key=self.key.format(device=device),
            absent=self.absent,
        )

    def acts(self, device: str, value: str) -> tuple[Change, ...]:
        """What makes it ``value`` on ``device``.  Raises as :meth:`probe`."""
        self._named(device)
        if self.how is not None:
            return self.how(device, value)
        if self.boot:
            return ()
        if self.change:
            return tuple(
                Change(
                    "run", argv=tuple(word.format(device=device, value=value) for word in command)
                )
                for command in self.change
            )
        return (Change("write", path=self.path.format(device=device), data=value),)

    def undo(self, device: str, value: str) -> tuple[Change, ...]:
        """What gives a former ``value`` back."""
        return self.acts(device, value) if self.back is None else self.back(device, value)

    def file(self, device: str) -> str:
        """Where it is read, for people."""
        return self.probe(device).place

    def observe(self, raw: bytes) -> str | None:
        """The value in what was read."""
        key = self.key.format(device="")
        return Probe(pick=self.pick, key=key, absent=self.absent).value(raw)

    def moved_by(self, other: Tunable) -> bool:
        if self.name in other.moves:
            return True
        patterns = (name for name in other.moves if not _WILD.isdisjoint(name))
        return any(fnmatch.fnmatchcase(self.name, pattern) for pattern in patterns)


@dataclass(frozen=True, slots=True, order=True)
class Setting:
    """A tunable at a value on a device (``device`` empty for host-wide tunables)."""

    device: str
    tunable: str
    value: str

    def __str__(self) -> str:
        where = f" on {self.device}" if self.device else ""
        return f"{self.tunable}={self.value}{where}"


@dataclass(frozen=True, slots=True)
class FormerValue:
    """A former value, and all that is needed to see whether it is in force and to give it back:
    as data, so that whoever pays it need not know the tunable.  ``durable``: a reboot does not
    forget it."""

    setting: Setting
    probe: Probe
    acts: tuple[Change, ...]
    durable: bool = False

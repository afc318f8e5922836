"""Conformance: what every plugin of a kind must do, tried out.

Nothing here executes a load or changes a setting: what a plugin says as data is looked at, and
what it reads is fed with nothing, with garbage and with what is cut off; of a host plugin's example
host the verbs are tried, in a folder that is made for it there and removed.  iotrial's own plugins
are held to the same.
"""

from __future__ import annotations

import dataclasses
import errno
import fnmatch
import importlib
import re
import secrets
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from iotrial.errors import (
    FileRefused,
    FormatError,
    HostError,
    IotrialError,
    LockedError,
    UsageError,
)
from iotrial.judgement import Judged, judge
from iotrial.model.host import Access, Connector, Host
from iotrial.model.measurement import Measurement
from iotrial.model.results import Results
from iotrial.model.step import Change, Ensure, Probe, Read
from iotrial.model.tool import (
    Load,
    LoadAccess,
    SupportsMetrics,
    SupportsSizedLoads,
    Tool,
    ToolTarget,
)
from iotrial.model.trial import TrialRecord
from iotrial.model.tunable import Tunable
from iotrial.model.validity import CheckContext as Measured
from iotrial.model.validity import LoadEvidence, Snapshot
from iotrial.model.workload import CustomMetric, OptionValue, Workload
from iotrial.plan.ahead import all_blocks
from iotrial.plan.load import parse_study
from iotrial.plugins import Plugin, clash
from iotrial.report.blocks import Block
from iotrial.tunables import all_tunables

E = TypeVar("E", bound=IotrialError)
_WORD = re.compile(r"[a-z0-9][a-z0-9_+-]*")
_ROW = re.compile(r"[a-z0-9_]+(\.[A-Za-z0-9_.-]+)+")
GARBAGE = (b"", b"\0\xff\xfe", b"nonsense 1 2 3\n", b'{"a": [1, 2', b"9" * 400 + b"\n")
_AIMS = (
    ToolTarget("/dev/loop0", "device", 2**30),
    ToolTarget("/tmp/a file", "file", 2**30),  # noqa: S108 (a name; nothing is opened)
    ToolTarget("/tmp/a folder", "directory", 2**30),  # noqa: S108
)
_FACTS = {"cpus": 4.0, "memory": float(2**34)}
_DEVICES = {
    "host": "", "device": "sda", "disk": "sda", "scsi-host": "host0", "nvme": "nvme0",
    "remote-port": "rport-0:0-1", "iscsi-session": "session1", "map": "mpatha", "array": "md0",
    "volume": "vg/lv", "crypt": "secret", "mount": "/mnt", "bdi": "8:0", "nic": "eth0",
    "rx": "eth0/queues/rx-0", "tx": "eth0/queues/tx-0", "irq": "24", "cpu": "cpu0", "cgroup": "8:0",
}  # fmt: skip
"""A name of each scope."""
_STUDY = """
question = "Does read-ahead matter?"
[targets.disk]
loop = { size = "64MiB" }
[workloads.reads]
tool = "fio"
options = { rw = "randread", bs = "4k", runtime = "1s" }
[factors.ahead]
tunable = "queue.read_ahead_kb"
levels = [128, 512]
baseline = 128
[design]
blocks = 4
[decide]
primary = "read.iops"
"""


def problems(plugin: Plugin) -> tuple[str, ...]:
    """What a plugin does not do as its kind must; empty: it conforms."""
    other = clash(plugin)
    taken: tuple[str, ...] = ()
    if other is not None and not _is_same_file(other, plugin):
        taken = (f"{other.origin} has a plugin called {other.name!r} already",)
    try:
        return (*taken, *_of(plugin)(plugin))
    except IotrialError as error:
        return (f"it raises {type(error).__name__}: {error.message}",)
    except Exception as error:  # noqa: BLE001 (whatever somebody else's module raises)
        where = _line(error, plugin.module.__file__ or "")
        return (f"it raises {type(error).__name__}{where}: {error}",)


def _is_same_file(one: Plugin, other: Plugin) -> bool:
    """A built-in plugin may be tried by its own file."""
    files = {Path(each.module.__file__ or "").resolve() for each in (one, other)}
    return len(files) == 1


def _of(plugin: Plugin) -> Callable[[Plugin], Iterator[str]]:
    module = importlib.import_module(plugin.kind.conformance)
    found: Callable[[Plugin], Iterator[str]] = getattr(module, f"of_{plugin.kind.name}")
    return found


def _line(error: BaseException, file: str) -> str:
    """The last line of the plugin that the error came through."""
    lines, trace = [], error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == file:
            lines.append(trace.tb_lineno)
        trace = trace.tb_next
    return f" in line {lines[-1]}" if lines else ""


def says(of: object, *names: str) -> Iterator[str]:
    """Each of these is a text that says something."""
    for name in names:
        text = getattr(of, name, "")
        if not isinstance(text, str) or not text.strip():
            yield f"its {name} is empty"


def named(name: str, pattern: re.Pattern[str] = _WORD) -> Iterator[str]:
    if not pattern.fullmatch(name):
        yield f"its name {name!r} is not of the form {pattern.pattern}"


# -- tunables -------------------------------------------------------------------------------------


def of_tunables(plugin: Plugin) -> Iterator[str]:
    yield from named(plugin.name)
    yield from says(plugin.module, "TITLE")
    rows: tuple[Tunable, ...] = plugin.value
    if not rows and plugin.origin.kind != "built-in":  # a study makes the rows of ``file``
        yield "its TUNABLES are empty"
    known = {row.name: row for row in all_tunables()} | {row.name: row for row in rows}
    for row in rows:
        yield from (f"{row.name}: {problem}" for problem in _row(row, plugin.name, known))


def _twins(row: Tunable, known: Mapping[str, Tunable]) -> Iterator[str]:
    """Other rows of the same place.  A rule is none: its levels become settings of another row."""
    for other in known.values():
        alike = (other.path, other.key, other.read) == (row.path, row.key, row.read)
        if alike and other.name != row.name and not row.place and not other.place:
            yield other.name


def _row(row: Tunable, family: str, known: Mapping[str, Tunable]) -> Iterator[str]:
    yield from named(row.name, _ROW)
    if not row.name.startswith(f"{family}."):
        yield f"its name does not begin with {family}., its family"
    yield from says(row, "summary", "source")
    if not row.path.startswith("/") and not row.read:
        yield "it has neither a file (path) nor a command (read) for its value"
        return
    told = " ".join((row.path, row.key, *row.read))
    if row.scope != "host" and "{device}" not in told and row.scope != "cgroup":
        yield "neither path, key nor read contains {device}: all devices would share one value"
    yield from (f"{name} is the same setting" for name in _twins(row, known))
    for pattern in row.moves:
        if not fnmatch.filter(known, pattern):
            yield f"it moves {pattern!r}, which is not the name of a tunable"
    device = _DEVICES[row.scope]
    row.probe(device)
    if not (row.reload or row.boot or row.how or row.change or row.path):
        yield "no file or command changes it, and reload does not explain why"
    for raw in GARBAGE:
        row.domain(raw).refusal("1")


# -- tools ----------------------------------------------------------------------------------------


def of_tools(plugin: Plugin) -> Iterator[str]:
    tool: Tool = plugin.value
    yield from named(tool.name)
    yield from says(tool, "summary", "program")
    if isinstance(tool, SupportsMetrics) and not _measures(tool):
        yield f"its usual metric {tool.usual!r} is not one that it measures"
    options: Mapping[str, OptionValue] = getattr(plugin.module, "EXAMPLE", {})
    wanted = (CustomMetric("score", pattern="([0-9.]+)"),)
    load = Workload(
        "example",
        tool.name,
        tuple(options.items()),
        argv=("true",),
        metrics=wanted,
        trace=getattr(plugin.module, "EXAMPLE_TRACE", ""),
    )
    wrong = tool.check(load, _FACTS)
    if wrong:
        yield from (
            f"EXAMPLE, the options of a load that works: {option}: {problem}"
            for option, problem in wrong
        )
        return
    unknown = (*load.options, ("no_such_option", 1))
    if not tool.check(dataclasses.replace(load, options=unknown), _FACTS):
        yield "check accepts an unknown option"
    if not isinstance(tool.reach(load), LoadAccess):
        yield "reach does not return a LoadAccess"
    yield from _commands(tool, load)
    if not isinstance(tool.version_problem(""), str):
        yield "version_problem does not return a text"
    yield from _unread(tool)


def _measures(tool: SupportsMetrics) -> bool:
    words = (tool.usual, f"read.{tool.usual}", f"write.{tool.usual}")
    return not tool.usual or any(tool.measures.fullmatch(word) for word in words)


def _commands(tool: Tool, load: Workload) -> Iterator[str]:
    made = 0
    for aimed in _AIMS:
        try:
            command = tool.command(load, aimed, _FACTS)
        except UsageError:
            continue
        made += 1
        # A study's own command names its target where it wants; some have none (iperf3).
        named = tool.name == "command" or not tool.reach(load).storage
        yield from _command(command, aimed, named=named)
        if not tool.seconds(load, aimed) > 0:
            yield f"seconds at a {aimed.kind} are not more than 0"
        if isinstance(tool, SupportsSizedLoads) and not tool.likely(load, aimed) > 0:
            yield f"likely seconds at a {aimed.kind} are not more than 0"
    if not made:
        yield "command accepts neither a device, a file nor a directory"


def _command(command: Load, aimed: ToolTarget, *, named: bool) -> Iterator[str]:
    texts = (*command.argv, *(text.decode("utf-8", "replace") for _, text in command.files))
    if not command.argv or not all(isinstance(word, str) for word in command.argv):
        yield f"the command at a {aimed.kind} is not a sequence of words"
    elif not named and not any(aimed.path in text for text in texts):
        yield f"the command at a {aimed.kind} does not name it"
    for name, _ in command.files:
        if "/" in name or name in {"", ".", ".."}:
            yield f"its file {name!r} is not in the trial's folder"


def _unread(tool: Tool) -> Iterator[str]:
    """A result that is not whole is a FormatError: numbers of half a load would be believed."""
    for data in GARBAGE:
        with tempfile.TemporaryDirectory(prefix="iotrial-") as name:
            folder = Path(name)
            for each in ("stdout", "stderr"):
                (folder / each).write_bytes(data)
            try:
                found = tool.parse(folder)
            except FormatError:
                continue
            if found.measurements:
                yield f"parse returns measurements for a stdout of {data[:20]!r}"


# -- formats --------------------------------------------------------------------------------------


def of_formats(plugin: Plugin) -> Iterator[str]:
    form = plugin.value
    yield from named(form.name)
    yield from says(form, "title")
    for data in GARBAGE:
        if form.recognises(data, "file") not in range(4):
            yield "recognises returns something other than 0, 1, 2 or 3"
        try:
            form.read(data, "file")
        except FormatError:
            continue


# -- hosts ----------------------------------------------------------------------------------------

_ODD_BYTES = b"a\n\0b'$HOME'\n\n" + bytes(range(256))
_WAITS, _ENDED = 30.0, -15


def of_hosts(plugin: Plugin) -> Iterator[str]:
    way: Connector = plugin.value
    yield from named(plugin.name)
    yield from says(way, "about")
    example = getattr(plugin.module, "EXAMPLE", None)
    if example is None:
        if plugin.origin.kind != "built-in":  # of ssh(1) there is none on every machine
            yield "it has no EXAMPLE, the words by which it reaches a host here"
        return
    if said := way.check(example):
        yield f"EXAMPLE: {said}"
        return
    with way.connect(Access(example, "example")) as host:
        if host.name != "example":
            yield f"the host is called {host.name!r}, and not as it was told"
        there = f"/tmp/iotrial-try-{secrets.token_hex(8)}"  # noqa: S108 (mkdir: a new one)
        if host.run(["mkdir", "-m", "700", there]).exit:
            yield f"no folder {there} can be made there"
            return
        try:
            yield from _commands_of(host)
            yield from _files_of(host, f"{there}/a b")
            yield from _steps_of(host, f"{there}/held")
            yield from _lock_of(host, f"{there}/lock")
            yield from _loads_of(host)
            if plugin.name != "fake":  # what is made up has no processes
                yield from _processes_of(host, f"{there}/note")
        finally:
            host.run(["rm", "-rf", "--", there])


def _commands_of(host: Host) -> Iterator[str]:
    if host.run(["echo", "a  b", "$HOME", "'"]).text != "a  b $HOME '\n":
        yield "run changes the words of a command"
    text = b"a\n 'b' $HOME\n\n"
    if host.run(["cat"], stdin=text).stdout != text:
        yield "run changes what a command reads and prints"
    if host.run(["iotrial-no-such-program"]).exit != 127:  # noqa: PLR2004 (the shell's own)
        yield "run gives another exit status than 127 for a program that is not installed"
    with _raises(HostError) as raised:
        host.run(["sleep", "30"], timeout=0.2)
    if not raised:
        yield "run does not raise HostError for a command that takes longer than its timeout"
    began = host.clock()
    host.sleep(0.01)
    if host.clock() < began + 0.009:
        yield "sleep ends before its time, or the clock does not advance"


def _files_of(host: Host, path: str) -> Iterator[str]:
    with _raises(FileRefused) as raised:
        host.read(path)
    if not raised or raised[0].errno != errno.ENOENT:
        yield "read does not raise FileRefused with ENOENT for a file that is not there"
    host.save(path, _ODD_BYTES)
    host.append(path, _ODD_BYTES)
    if host.read(path) != _ODD_BYTES * 2:
        yield "what was saved and appended is not what is read"
    host.write(path, b"XY")
    if host.read(path) != b"XY" + (_ODD_BYTES * 2)[2:]:
        yield "write does not write over the beginning of the file alone"
    folder, _, name = path.rpartition("/")
    if host.list(folder) != [name]:
        yield "list does not give the names in a folder"
    host.remove(path)
    host.remove(path)
    if host.list(folder):
        yield "what was removed is still there"


def _steps_of(host: Host, path: str) -> Iterator[str]:
    host.save(path, b"old\n")
    act = (Change("write", path, "new"),)
    seen, kept, held, lost = host.batch(
        [
            Read(Probe(path)),
            Ensure(Probe(path), "old", act),
            Ensure(Probe(path), "new", act),
            Read(Probe(f"{path}.absent")),
        ]
    )
    if (seen.raw, kept.raw, held.raw) != (b"old\n",) * 3 or host.read(path) != b"new\n":
        yield "batch does not do its steps in order, and writes what differs alone"
    if lost.errno != errno.ENOENT:
        yield "batch gives no ENOENT for a file that is not there"
    host.remove(path)


def _lock_of(host: Host, path: str) -> Iterator[str]:
    with host.lock(path), _raises(LockedError) as raised, host.lock(path):
        pass
    if not raised:
        yield "a lock that is held can be taken once more"
    with host.lock(path):
        pass


def _loads_of(host: Host) -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix="iotrial-") as name:
        folder = Path(name)
        ended = host.start(["echo", "hi"], folder=folder, environment={}).wait(_WAITS)
        if ended != 0 or (folder / "stdout").read_bytes() != b"hi\n":
            yield "a load's exit status or output does not come back"
        load = host.start(["sleep", "60"], folder=folder, environment={})
        if load.wait(0.05) is not None:
            yield "wait says that a load has ended that goes on"
        load.kill(gently=True)
        if load.wait(_WAITS) != _ENDED:
            yield "kill does not end a load"


def _processes_of(host: Host, path: str) -> Iterator[str]:
    host.mark({"IOTRIAL_TRY": "it's $HOME"})
    if host.run(["printenv", "IOTRIAL_TRY"]).text != "it's $HOME\n":
        yield "a command does not carry the mark"
    host.mark({})
    if host.run(["printenv", "IOTRIAL_TRY"]).exit == 0:
        yield "a mark stays when it is taken back"
    script = 'echo ready; while read -r line; do echo "$line" >>"$0"; done; echo end >>"$0"'
    with host.guard(["sh", "-c", script, path], every=0.05):
        host.sleep(0.3)
    heard = host.read(path).decode().split()
    if heard[:1] != ["."] or heard[-2:] != ["done", "end"]:
        yield f"a guard does not hear that we live and that we leave, but {heard}"


@contextmanager
def _raises(kind: type[E]) -> Iterator[list[E]]:
    """Holds what was raised in it, where that is of this kind."""
    raised: list[E] = []
    try:
        yield raised
    except kind as error:
        raised.append(error)


# -- validity, native files, reports
# ----------------------------------------------------------------


def of_validity(plugin: Plugin) -> Iterator[str]:
    check = plugin.value
    yield from named(check.name)
    yield from says(check, "title", "looks_at", "limit", "remedy", "source")
    scene = Measured()
    tuple(check.reads(scene))
    for doubt in check.judge(LoadEvidence(scene, Snapshot(), Snapshot(), 1.0)):
        yield f"it returns a doubt for a load without data: {doubt.what}"


def of_native(plugin: Plugin) -> Iterator[str]:
    yield from named(plugin.value.name)
    yield from says(plugin.value, "about", "source")


def of_sections(plugin: Plugin) -> Iterator[str]:
    yield from named(plugin.value.name)
    yield from says(plugin.value, "title")
    for judged in _judged():
        if not all(isinstance(each, Block) for each in plugin.value.blocks(judged)):
            yield "its blocks gives something that is no block of iotrial.report.blocks"


def _judged() -> Iterator[Judged]:
    """What a small study comes to: before its first trial, and with all of them done."""
    study = parse_study(_STUDY, "made-up.toml", str)
    planned = all_blocks(study)
    done = tuple(
        TrialRecord(
            trial,
            "valid",
            0.0,
            1.0,
            measurements=(Measurement("read.iops", 1000.0 + trial.number, "1/s"),),
        )
        for trial in planned
    )
    for records in ((), done):
        yield judge(Results(Path("made-up"), study, planned, records, baselines={"ahead": "128"}))


def of_reports(plugin: Plugin) -> Iterator[str]:
    yield from named(plugin.value.name)
    yield from says(plugin.value, "title")
    with tempfile.TemporaryDirectory(prefix="iotrial-") as name:
        if plugin.value.takes(Path(name)):
            yield "it accepts an empty folder"

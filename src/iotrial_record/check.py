"""Check: how faithful a replay is.  A recording is done again in three ways, and what the block
layer is asked meanwhile is recorded: the replay, the job file with the same character, and fio's
own replay of one log, to be compared with.

The target is made ready as that of a study is: what is not armed is refused.  The load carries the
recording's token, so that the guard and a restore end it with the recording.  Only what fio's
threads asked is compared.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from iotrial.errors import TargetRefused, TrialError, UsageError
from iotrial.execute.interruption import Interruption
from iotrial.execute.load.load import TOKEN, LoadExit, end, last_words
from iotrial.files import write_bytes
from iotrial.look.targets import ready
from iotrial.model.host import Host, Process
from iotrial.model.target import Target
from iotrial.model.tool import aimed_at
from iotrial.model.workload import Workload
from iotrial.tools import tool
from iotrial_record.again import text_for
from iotrial_record.character import LoadCharacter, character
from iotrial_record.fidelity import FidelityDistance, distances
from iotrial_record.recorder import Recorder, devices_of
from iotrial_record.trace import QUEUED, TraceEvents, TraceFacts, joined, load_device

WAYS: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "replay": ("replay", {}),
    "job file": ("fio", {}),
    "fio's replay": ("replay", {"by": "blktrace"}),
}
"""What each is called; its tool and options."""


@dataclass(frozen=True, slots=True)
class CheckRequest:
    """The ``recording`` that is done again, and where: ``path`` is a device, which ``destroy`` arms
    ('': nothing does); ``device`` is which of the recording's ('': its only one)."""

    recording: Path
    path: str
    destroy: str = ""
    device: str = ""


@dataclass
class _Load:
    """A load that is started when the recorder records, and ends the recording."""

    host: Host
    argv: tuple[str, ...]
    folder: Path
    token: str
    interruption: Interruption
    process: Process | None = None
    exit: int | None = None

    def begin(self, *_: object) -> None:
        if self.process is None:
            environment = {TOKEN: self.token, "LC_ALL": "C"}
            self.process = self.host.start(self.argv, folder=self.folder, environment=environment)

    def over(self) -> bool:
        if self.process is not None and self.exit is None:
            self.exit = self.process.wait(0.0)
        return self.exit is not None or bool(self.interruption.signal)


def again(
    host: Host, request: CheckRequest, way: str, out: Path, interruption: Interruption
) -> TraceFacts:
    """Do the recording again, and record that into ``out``.  The caller holds the host's lock.

    Raises TargetRefused for a target that is not armed, TrialError where fio fails, and what the
    recorder raises."""
    name, options = WAYS[way]
    text = text_for(name, request.recording, 0.0, None, device=request.device)
    load = Workload("again", name, tuple(options.items())).doing(text)
    driver = tool(name)
    aim = ready(
        host, Target("target", "device", request.path, destroy=request.destroy), driver.reach(load)
    )
    work = driver.command(load, aimed_at(aim), {})
    folder = out / "load"
    folder.mkdir(parents=True)
    for file, content in work.files:
        write_bytes(folder / file, content)
    recorder = Recorder(host, devices_of(host, [request.path]), out, names=True)
    running = _Load(host, work.argv, folder, recorder.name, interruption)
    lasts = 10 * driver.seconds(load, aimed_at(aim)) + 60
    try:
        facts = recorder.record(lasts, stop=running.over, tell=running.begin)
    finally:
        if running.process is not None and running.exit is None:
            end(host, running.process)
    if running.exit and not interruption.signal:
        ended = LoadExit(running.exit, facts.seconds)
        raise TrialError(f"{way}: {last_words(folder, ended)}", advice=f"See {folder / 'stderr'}")
    return facts


def replaced(error: TargetRefused) -> TargetRefused:
    """The refusal of a study's target in the words of this command."""
    message = error.message.removeprefix("target: ").replace(
        ", but the study does not permit it", ", and nothing permits it"
    )
    advice = error.advice.replace("write in the study: destroy = ", "add --destroy ")
    return TargetRefused(message, advice=advice)


def original(request: CheckRequest) -> tuple[TraceFacts, Iterator[TraceEvents]]:
    """What is done again.  Raises UsageError as :func:`iotrial_record.trace.load_device` does."""
    return load_device(request.recording, request.device, lambda name: f"--device {name}")


def compared(
    request: CheckRequest, recorded: Mapping[str, Path]
) -> dict[str, dict[str, FidelityDistance]]:
    """The distances from the recording of each way's, by way and property.

    Raises UsageError where fio asked for nothing."""
    wanted = _cut(request, of_fio=False)
    done = {way: replace(request, recording=path, device="") for way, path in recorded.items()}
    return {way: distances(wanted, _cut(each, of_fio=True)) for way, each in done.items()}


def _cut(request: CheckRequest, *, of_fio: bool) -> LoadCharacter:
    """From the first I/O to the last."""
    index, found = original(request)
    threads = {int(number) for number, name in index.names.items() if name.startswith("fio")}
    parts = [_only(each, threads) if of_fio else each for each in found]
    events = joined(parts)
    asked = events.at[events.kind == QUEUED]
    if not len(asked):
        what = f"{request.recording}: nothing was asked"
        raise UsageError(what, advice="Record again, for longer.")
    first, last = int(asked[0]), int(asked[-1])
    here = events.only((events.at >= first) & (events.at <= last))
    moved = replace(here, at=here.at - first)
    return character(replace(index, seconds=(last - first) / 1e9), _once(moved))


def _once(events: TraceEvents) -> Iterator[TraceEvents]:
    yield events


def _only(events: TraceEvents, threads: set[int]) -> TraceEvents:
    mine = np.isin(events.process, list(threads))
    return events.only((events.kind != QUEUED) | mine)

"""``iotrial record``: what the block layer of a host is asked, into a folder."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.text import Text

from iotrial.cli.completion import of_targets
from iotrial.cli.machine import machine, place_of
from iotrial.cli.output import Output, can_move, common, writing
from iotrial.errors import TargetRefused, UsageError
from iotrial.execute.interruption import Interruption
from iotrial.execute.settings.guard import locked
from iotrial.plan.saturate import SaturationTarget, targets_named
from iotrial.report.layout import TextTable
from iotrial.units import format_bytes, format_value, format_wait, parse_seconds

if TYPE_CHECKING:
    from iotrial_record.check import CheckRequest
    from iotrial_record.trace import TraceFacts

_LONGEST = 24 * 3600.0


@click.command()
@click.argument("target", nargs=-1, required=True, shell_complete=of_targets)
@click.option(
    "--for",
    "time",
    default="60s",
    show_default=True,
    metavar="TIME",
    help="How long; Ctrl-C ends it before, and keeps what is recorded.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="FOLDER",
    help="Into this folder, which must not exist or be empty; default: load.",
)
@click.option("--names", is_flag=True, help="Record names of threads, too.")
@click.option(
    "--check",
    "checked",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    metavar="FOLDER",
    help="Do this recording again on TARGET in three ways, record each, and compare.",
)
@click.option(
    "--destroy",
    default="",
    metavar="ID",
    help="With --check, of a recording that writes: what on TARGET may be overwritten, by its"
    " serial or WWN, or the path of its file.",
)
@click.option(
    "--device",
    default="",
    metavar="NAME",
    help="With --check, of a recording of several devices: which of them is done again.",
)
@common
def command(  # noqa: PLR0913, PLR0917 (click hands over every option)
    output: Output,
    target: tuple[str, ...],
    time: str,
    out: Path | None,
    checked: Path | None,
    destroy: str,
    device: str,
    *,
    names: bool,
) -> int:
    """Record what disks are asked: each I/O's time, place, size and kind.

    Contents and names of files are not recorded, and nothing is installed.  TARGET is a block
    device, or a file or folder on one; HOST:TARGET is one of a host.

    \b
    Example:
      sudo IOTRIAL record /dev/nvme0n1 --for 10m --out monday
      iotrial record root@box7:/srv/db --for 1h --out db
      iotrial report monday
      sudo IOTRIAL record --check monday /dev/nvme1n1 --destroy S4EWNX0R
    """
    from iotrial_record.recorder import Recorder, devices_of

    if checked is not None:
        from iotrial_record.check import CheckRequest

        aim = _only(target)
        request = CheckRequest(checked, aim.path, destroy, device)
        return _check(output, request, aim.ssh, out or Path(f"{checked}-check"))
    if destroy:
        raise UsageError("--destroy is for --check", advice="Recording overwrites nothing.")
    if device:
        raise UsageError("--device is for --check", advice=f"Name it as a target: {device}")
    out = out or Path("load")
    seconds = _seconds(time)
    asked = _asked(target)
    ways = {each.ssh for each in asked}
    if len(ways) > 1:
        raise UsageError(
            f"targets of {len(ways)} hosts", advice="Record each host by a command of its own."
        )
    _need_empty(out)
    place = place_of(ways.pop() or None)
    with (
        Interruption() as stop,
        machine(pretend=False, place=place, purpose="record") as host,
        locked(host),
    ):
        devices = devices_of(host, [each.path for each in asked])
        with writing(out, "--out"):
            out.mkdir(parents=True, exist_ok=True)
        recorder = Recorder(host, devices, out, names=names)

        moves, begun = can_move(output.notes), False

        def tell(so_far: float, index: TraceFacts) -> None:
            nonlocal begun
            if not begun and not moves:
                output.note(f"recording for {format_wait(seconds)}; Ctrl-C ends it before")
            begun = True
            if moves:
                output.moving.show(Text(_line(so_far, seconds, index)))

        try:
            index = recorder.record(seconds, stop=lambda: bool(stop.signal), tell=tell)
        finally:
            if moves:
                output.moving.end()
    output.document({**asdict(index), "folder": str(out), "doubt": index.doubt})
    size = sum(each.stat().st_size for each in out.iterdir())
    output.answer(f"{_said(index)}; {format_bytes(size)} in {out}")
    if index.doubt:
        output.answer(f"doubtful: {index.doubt}")
    return 130 if stop.signal else 0


def _asked(target: tuple[str, ...]) -> tuple[SaturationTarget, ...]:
    try:
        return targets_named(target)
    except ValueError as error:
        raise UsageError(str(error), advice="For example box7:/dev/nvme0n1") from None


def _need_empty(out: Path) -> None:
    if out.exists() and any(out.iterdir()):
        raise UsageError(f"{out} is not empty", advice="Name another folder with --out.")


def _only(target: tuple[str, ...]) -> SaturationTarget:
    asked = _asked(target)
    if len(asked) > 1:
        raise UsageError(f"{len(asked)} targets to check on", advice="Name one.")
    return asked[0]


def _check(output: Output, request: CheckRequest, ssh: str, out: Path) -> int:
    from iotrial_record.check import WAYS, again, compared, original, replaced

    original(request)  # what cannot be done again is refused before a host is locked
    _need_empty(out)
    recorded = {way: out / way.replace("'", "").replace(" ", "-") for way in WAYS}
    with (
        writing(out, "--out"),
        Interruption() as stop,
        machine(pretend=False, place=place_of(ssh or None), purpose="record") as host,
        locked(host),
    ):
        for way, there in recorded.items():
            try:
                index = again(host, request, way, there, stop)
            except TargetRefused as error:
                raise replaced(error) from None
            if stop.signal:
                output.answer(f"ended before its end; what was recorded until then is in {out}")
                return 130
            output.note(f"{way}: {index.counts.get('block_bio_queue', 0)} I/Os")
            if index.doubt:
                output.note(f"doubtful: {index.doubt}")
    found = compared(request, recorded)
    output.document({
        way: {name: asdict(each) for name, each in own.items()} for way, own in found.items()
    })  # fmt: skip
    table = TextTable("distance", *found, "the replay differs most")
    for name, each in found["replay"].items():
        values = (f"{own[name].value:.3f}" for own in found.values())
        table.add_row(name, *values, each.worst)
    output.answer(table, "0 is the same, 1 nothing in common")
    return 0


def _seconds(text: str) -> float:
    try:
        seconds = parse_seconds(text)
    except ValueError as error:
        raise UsageError(f"--for: {error}", advice="For example --for 10m") from None
    if not 1 <= seconds <= _LONGEST:
        raise UsageError(f"--for {text}: from one second to one day", advice="For example 10m")
    return seconds


def _said(index: TraceFacts) -> str:
    asked = index.counts.get("block_bio_queue", 0)
    rate = format_value(asked / index.seconds, "IOPS") if index.seconds else "0 IOPS"
    disks = ", ".join(each.name for each in index.devices)
    return f"{disks}: {asked} I/Os in {format_wait(index.seconds)}, {rate}"


def _line(so_far: float, seconds: float, index: TraceFacts) -> str:
    asked = index.counts.get("block_bio_queue", 0)
    left = format_wait(max(0.0, seconds - so_far))
    lost = f", {index.gaps} gaps" if index.gaps else ""
    return f"recording: {format_wait(so_far)}, {asked} I/Os{lost}, {left} left"

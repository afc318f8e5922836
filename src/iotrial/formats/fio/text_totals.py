"""The totals of a group against its jobs: they are the same numbers, added up by fio itself."""

from __future__ import annotations

from collections.abc import Sequence

from iotrial.formats.fio.text_blocks import Block, Part
from iotrial.formats.fio.text_lines import Place, Total, respelled, respelled_total
from iotrial.formats.fio.text_numbers import Span

_KIB = 1024.0


def check(blocks: Sequence[Block], totals: Sequence[Total], place: Place, kilo: int) -> None:
    """Raises FormatError where they contradict each other; ``kilo`` is what K stands for."""
    if len({total.operation for total in totals}) != len(totals):
        raise place.error("two totals of one direction in a group")
    moved = {name for block in blocks for name in block.parts}
    for total in totals:
        parts = [block.parts[total.operation] for block in blocks if total.operation in block.parts]
        _one(parts, total, Place(place.raw, total.line), kilo)
        moved.discard(total.operation)
    if moved - {"mixed"} or (moved and not totals):
        raise place.error(f"no total of {', '.join(sorted(moved))}, which jobs of the group did")


def _one(parts: Sequence[Part], said: Total, place: Place, kilo: int) -> None:
    total = respelled_total(said, kilo)
    operation = total.operation
    if not parts:
        raise place.error(f"a total of {operation}, which no job of the group did")
    every = [respelled(part.moved, kilo) for part in parts]
    times = [moved.milliseconds for moved in every]
    if (min(times), max(times)) != (total.shortest, total.longest):
        raise place.error(
            f"{operation} took {total.shortest} to {total.longest} ms in all, by its jobs "
            f"{min(times)} to {max(times)} ms"
        )
    size = Span(
        sum(moved.size.low for moved in every),
        sum(moved.size.high for moved in every),
        sum(moved.size.shown for moved in every),
    )
    # Up to 2.16 fio adds up whole KiB, and cuts off the rest of each job's.
    more = _KIB * (len(parts) + 1) if every[0].text else 0.0
    if not size.meets(total.size.wider(more)):
        raise place.error(
            f"{operation}: {total.size.shown:.6g} bytes in all, by its jobs {size.shown:.6g}"
        )
    seconds = total.longest / 1000
    for rate in total.rates:
        if not rate.wider(more / seconds).scaled(seconds).meets(total.size.wider(more)):
            raise place.error(
                f"{operation}: {total.size.shown:.6g} bytes in {total.longest} ms are not "
                f"{rate.shown:.6g} bytes/s"
            )

"""Who else could change what a path leads to: every owner, mode and place on the way there."""

from __future__ import annotations

from itertools import product

import pytest

from iotrial.look.inodes import FolderOwner, meddling

ROOT, ME, OTHER = 0, 1000, 2000
OURS = frozenset({ROOT, ME})
MODES = (0o700, 0o755, 0o775, 0o1775, 0o777, 0o1777, 0o707, 0o733)


def chain(*folders: tuple[int, int, bool]) -> list[FolderOwner]:
    return [
        FolderOwner(f"/{number}", owner, mode, "staff", private)
        for number, (owner, mode, private) in enumerate(folders)
    ]


@pytest.mark.parametrize("place", [0, 1, 2])
@pytest.mark.parametrize(
    ("owner", "mode", "private"), list(product((ROOT, ME, OTHER), MODES, (False, True)))
)
def test_one_weak_folder_anywhere_on_the_way_is_enough(
    place: int, owner: int, mode: int, *, private: bool
) -> None:
    """All folders are root's and 0755, but for one; what is below must be all that shields it."""
    rows = [(ROOT, 0o755, True)] * 3
    rows[place] = (owner, mode, private)
    others_write = bool(mode & 0o002 or (mode & 0o020 and not private))
    sticky = bool(mode & 0o1000)
    closed = owner != OTHER and (not others_write or (sticky and place < 2))
    assert (meddling(chain(*rows), OURS) == "") is closed
    kept = owner != OTHER and (not others_write or sticky)
    assert (meddling(chain(*rows), OURS, bottom=True) == "") is kept


def test_the_reason_names_folder_and_who() -> None:
    assert meddling(chain((ROOT, 0o755, False), (OTHER, 0o755, False)), OURS) == (
        "/1 belongs to user 2000"
    )
    assert meddling(chain((ROOT, 0o777, False)), OURS) == (
        "/0 is writable by everybody (mode 0777)"
    )
    assert "the group staff (mode 0775)" in meddling(chain((ROOT, 0o775, False)), OURS)

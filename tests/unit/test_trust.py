"""Who may have written a folder or file, or could replace it: every owner, kind and mode."""

from __future__ import annotations

import itertools

import pytest

from iotrial.hosts.places import LinkStatus, above_ours, not_ours

ME, ROOT, OTHER = 1000, 0, 1001
WRITABLE = (0o720, 0o702, 0o777, 0o1777, 0o1770, 0o3775)
CLOSED = (0o700, 0o755, 0o500, 0o1755, 0o2755)


@pytest.mark.parametrize("uid", [ROOT, ME])
def test_a_folder_is_ours_where_only_we_or_root_may_write_it(uid: int) -> None:
    for owner, mode in itertools.product((ROOT, ME, OTHER), (*WRITABLE, *CLOSED)):
        ours = owner in (ROOT, uid) and mode in CLOSED
        assert (not not_ours(LinkStatus(owner, mode, "directory"), uid, "directory")) is ours
        assert not_ours(LinkStatus(owner, mode, "symbolic link"), uid, "directory")
        assert not_ours(LinkStatus(owner, mode, "directory"), uid, "regular")
        assert (not not_ours(LinkStatus(owner, mode, "regular empty file"), uid, "regular")) is ours


@pytest.mark.parametrize("uid", [ROOT, ME])
def test_a_folder_above_is_safe_where_nobody_else_can_replace_what_is_in_it(uid: int) -> None:
    for owner, mode in itertools.product((ROOT, ME, OTHER), (*WRITABLE, *CLOSED)):
        safe = owner in (ROOT, uid) and (mode in CLOSED or bool(mode & 0o1000))
        assert (not above_ours(LinkStatus(owner, mode, "directory"), uid)) is safe
        link = not above_ours(LinkStatus(owner, 0o777, "symbolic link"), uid)
        assert link is (owner in (ROOT, uid))

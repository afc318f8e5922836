"""Which of the files that a load holds open for writing are strange."""

from __future__ import annotations

from dataclasses import replace

import pytest

from iotrial.execute.load.opened import AllowedWrites, OpenFile, held, strange

FILE = OpenFile(7, "/srv/theirs", "regular file", "0:0", "65024:12", 1, 900)
ALLOWED = AllowedWrites(
    since=1000,
    devnos=frozenset({"7:3"}),
    inodes=frozenset({"65024:77"}),
    paths=frozenset({"/data/f"}),
    folders=("/results/trial", "/mnt/x/iotrial-fio/data"),
)
BLOCK = replace(FILE, kind="block special file", path="/dev/loop4", devno="7:4", inode="5:9")
CHARACTER = replace(BLOCK, kind="character special file", path="/dev/null", devno="1:3")

OWN = {
    "the target's device": replace(BLOCK, devno="7:3"),
    "it by another node": replace(BLOCK, path="/tmp/node", devno="7:3"),
    "the target's file": replace(FILE, inode="65024:77"),
    "it made anew": replace(FILE, path="/data/f"),
    "in the trial's folder": replace(FILE, path="/results/trial/a/b"),
    "in the tool's folder": replace(FILE, path="/mnt/x/iotrial-fio/data/job.0.0"),
    "a log of its own": replace(FILE, born=1000),
    "removed": replace(FILE, path="/tmp/x (deleted)", links=0),
    "shared memory": replace(FILE, path="/dev/shm/segment"),
    "of the kernel": replace(FILE, path="/proc/self/oom_score_adj"),
    "null": CHARACTER,
    "a terminal": replace(CHARACTER, path="/dev/pts/3", devno="88:3"),
    "a pipe": replace(FILE, kind="fifo", path="pipe:[77]"),
    "a socket": replace(FILE, kind="socket", path="socket:[77]"),
    "without a kind": replace(FILE, kind="", path="anon_inode:[io_uring]"),
    "closed, and a file has its number": replace(FILE, path="anon_inode:[landlock-ruleset]"),
    "a pipe, and a file has its number": replace(FILE, path="pipe:[77]"),
}
STRANGE = {
    "a file": FILE,
    "one with such a name": replace(FILE, path="/data/anon_inode:[io_uring]"),
    "an empty one": replace(FILE, kind="regular empty file"),
    "of unknown age": replace(FILE, born=0),
    "beside the trial's folder": replace(FILE, path="/results/trial2"),
    "a device": BLOCK,
    "one by the target's name": replace(BLOCK, path="/data/f"),
    "one by a node in the trial's folder": replace(BLOCK, path="/results/trial/node"),
    "one that was made since": replace(BLOCK, born=1001),
    "SCSI generic": replace(CHARACTER, path="/dev/sg0", devno="15:0"),
    "it by another node": replace(CHARACTER, path="/tmp/node", devno="15:0"),
    "an NVMe controller": replace(CHARACTER, path="/dev/nvme0", devno="f1:0"),
    "an NVMe namespace": replace(CHARACTER, path="/dev/ng0n1", devno="f2:0"),
    "memory": replace(CHARACTER, path="/dev/mem", devno="1:1"),
}


@pytest.mark.parametrize("what", OWN)
def test_a_load_may_write_what_is_its_own(what: str) -> None:
    assert strange([OWN[what]], ALLOWED) == []


@pytest.mark.parametrize("what", STRANGE)
def test_what_is_not_its_own_is_strange(what: str) -> None:
    assert strange([STRANGE[what]], ALLOWED) == [STRANGE[what]]


def test_two_looks_are_put_together_by_the_name_of_the_link() -> None:
    lines = ("500|/proc/7/fd/0 -> /dev/null", "300|/proc/7/fd/1 -> /a -> b\n|c", "700|x -> /x", "")
    links = "\0".join(lines)
    files = (
        "/proc/7/fd/0|character special file|1:3|5:4|1|0\0"
        "/proc/7/fd/1|regular file|0:0|65024:12|1|-\0"
        "/proc/7/fd/9|regular file|0:0|65024:13|1|5\0"
    )
    assert held(f"{links}|\0{files}") == [
        OpenFile(7, "/a -> b\n|c", "regular file", "0:0", "65024:12", 1, 0)
    ]
    assert held("") == []
    assert BLOCK.what == "block device 7:4"

"""The suite stress before pretended systems: honest ones, and such that lose a byte."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from iotrial_suites.case import Case, CaseFailed, CaseNotRun
from iotrial_suites.suites import chosen
from iotrial_suites.suites.filesystems import ATTRIBUTES, COUNT, files_of, lines_of
from scripted import FIO, Says, rehearse

Lie = Callable[[tuple[str, ...]], Says | None]
ALONE = ["stress/ext4", "stress/xfs", "stress/ocfs2"]
TOGETHER = ["stress/together-on-gfs2"]


def one(name: str) -> Case:
    ((_, case),) = chosen((name,))
    return case


def system(argv: tuple[str, ...], _stdin: str) -> Says | None:
    """A host whose file systems keep what they are given."""
    words = " ".join(argv)
    kept = "".join(f"21 {name}={value}\n" for name, value in ATTRIBUTES.items())
    answers = {
        "iotrial-sums": "beef  ./deep/er/file-1\nsmall\n",
        "iotrial-shared": "beef -\nbeef -\n4096\n",
        "stat -c %b /mnt/small": "1\n",
        "stat -c %b /mnt/grown": "24\n",
        "head -c 11": "a few bytes",
        "iotrial-look": kept,
        "xfs_info": "isize=1024 bsize=2048 reflink=1",
        "xfs_admin -l": 'label = "two"\n',
        "--query": "two\n",
        "blkid": "iotrial-two\n",
        "/proc/mounts": "/dev/loop00 /mnt ext4 rw 0 0\n",
        "fio --name=once": FIO,
        "dlm_tool status": "cluster nodeid 1 quorate 1 ring seq 9 9\n",
        "corosync-cmapctl": "totem.cluster_name (str) = lab\n",
        "iotrial-lines": f"{lines_of(2)}  -\n{2 * COUNT}\n",
        "iotrial-files": f"{files_of(2)}  -\n{2 * COUNT}\n",
    }
    found = next((text for part, text in answers.items() if part in words), "")
    return Says(found)


class Ext4:
    """The same, with what is asked of it in turn: a journal that goes and comes back, a superblock
    that is lost and found."""

    def __init__(self, lie: Lie | None = None) -> None:
        self.lie = lie or (lambda _argv: None)
        self.journal = True
        self.sound = True

    def answer(self, argv: tuple[str, ...], stdin: str) -> Says | None:
        words = " ".join(argv)
        if "has_journal" in words:
            self.journal = False
        if argv[:2] == ("tune2fs", "-j"):
            self.journal = True
        if words.startswith("dd if=/dev/zero"):
            self.sound = False
        told = self.lie(argv)
        if told is not None:
            return told
        if re.match(r"e2fsck -y|xfs_repair /|fsck.ocfs2 -f -y", words):
            self.sound = True
            return Says(exit=1 if argv[0] == "e2fsck" else 0)
        if argv[0] == "mount" and not self.sound:
            return Says(exit=32, stderr="bad superblock")
        if argv[:2] == ("cp", "--reflink=always"):
            return Says(exit=1, stderr="Operation not supported")
        if words == "ls /proc/fs/jbd2":
            return Says("loop00-8\n" if self.journal else "vda-8\n")
        return system(argv, stdin)


@pytest.mark.parametrize("name", ALONE)
def test_a_file_system_that_keeps_what_it_is_given_passes(name: str) -> None:
    done = rehearse(one(name), Ext4().answer)
    assert [step.argv[0] for step in done].count("umount") >= 2


def says(*words: str, what: Says) -> Lie:
    """A command that has these words says something else."""
    return lambda argv: what if set(words) <= set(argv) else None


def later(lie: Lie, after: int) -> Lie:
    """The lie, but from the time on that it could have been told so often."""
    told = [0]

    def so(argv: tuple[str, ...]) -> Says | None:
        found = lie(argv)
        told[0] += found is not None
        return found if told[0] > after else None

    return so


@pytest.mark.parametrize(
    ("name", "lie", "told"),
    [
        ("ext4", later(says("iotrial-sums", what=Says("dead")), 1), "not as they were"),
        ("ext4", says("iotrial-look", what=Says("")), "user.iotrial-short is not there"),
        ("ext4", says("/mnt/small", "%b", what=Says("8")), "takes blocks of its own"),
        ("ext4", says("/mnt/grown", "%b", what=Says("0")), "9000 bytes is said to take no block"),
        ("ext4", says("head", what=Says("a few")), "that outgrew its inode begins 'a few'"),
        ("ext4", says("--reflink=always", what=Says()), "was to be refused, and succeeded"),
        ("ext4", says("ls", what=Says("loop00-8")), "is to have no journal"),
        ("ext4", says("ls", what=Says("vda-8")), "is to have a journal"),
        ("ext4", says("blkid", what=Says("old")), "tune2fs gave it a name"),
        ("ext4", says("mount", "-t", what=Says()), "was to be refused, and succeeded"),
        ("ext4", says("e2fsck", "-y", what=Says()), "e2fsck"),
        ("xfs", says("xfs_info", what=Says("isize=512 bsize=2048")), "made with isize=1024"),
        ("xfs", says("iotrial-shared", what=Says("a\nb\n0\n")), "changed the original"),
        ("xfs", says("iotrial-shared", what=Says("a\na\nsame\n0\n")), "is as it was"),
        ("xfs", says("iotrial-shared", what=Says("a\na\n8388608\n")), "took 8388608 bytes"),
        ("xfs", says("fio", what=Says(FIO.replace("9}", "5}", 1))), "not all that was written"),
        ("xfs", says("fio", what=Says("")), "fio says no good result"),
        ("ocfs2", says("--query", what=Says("one")), "its name is to be two"),
    ],
)
def test_a_file_system_that_does_not_is_found_out(name: str, lie: Lie, told: str) -> None:
    with pytest.raises(CaseFailed, match=told):
        rehearse(one(f"stress/{name}"), Ext4(lie).answer)


@pytest.mark.parametrize("name", TOGETHER)
def test_hosts_that_find_every_byte_of_all_pass(name: str) -> None:
    done = rehearse(one(name), system)
    assert {step.on for step in done if "iotrial-lines" in step.argv} == {0, 1}


@pytest.mark.parametrize("name", TOGETHER)
@pytest.mark.parametrize(
    ("word", "text", "told"),
    [
        ("iotrial-lines", f"{lines_of(2)}  -\n{2 * COUNT - 1}\n", "finds 59 lines instead of 60"),
        ("iotrial-lines", f"dead  -\n{2 * COUNT}\n", "other lines than were written"),
        ("iotrial-files", f"{files_of(2)}  -\n{2 * COUNT + 1}\n", "finds 61 files instead of 60"),
        ("iotrial-files", f"dead  -\n{2 * COUNT}\n", "finds other bytes in files"),
    ],
)
def test_a_byte_that_only_the_second_host_misses_is_found_out(
    name: str, word: str, text: str, told: str
) -> None:
    def second(argv: tuple[str, ...], stdin: str) -> Says | None:
        return Says(text) if word in argv else system(argv, stdin)

    with pytest.raises(CaseFailed, match=f"n1 .*{told}"):
        rehearse(one(name), (system, second))


@pytest.mark.parametrize(
    ("name", "word", "why"),
    [
        ("stress/together-on-gfs2", "dlm_tool", "dlm is not quorate"),
        ("stress/path-loss", "cat", "not a map of dm-multipath"),
    ],
)
def test_what_is_not_there_is_a_reason_not_to_run(name: str, word: str, why: str) -> None:
    def without(argv: tuple[str, ...], stdin: str) -> Says | None:
        return Says(exit=1) if word in argv else system(argv, stdin)

    with pytest.raises(CaseNotRun, match=why):
        rehearse(one(name), without)


LOG = "d *** Start\nd fill {0} \nd {1} (9 secs)\nd *** End Single Node test ***\n"


@pytest.mark.parametrize(
    ("log", "told"),
    [
        (LOG.format("holes", "FAILED"), "1 of its programs failed: d fill holes"),
        (LOG.format("holes", "?"), "says that nothing passed"),
        (LOG.format("holes", "PASSED").replace("End", ""), "did not come to its end"),
    ],
)
def test_what_ocfs2_test_says_in_its_log_counts(log: str, told: str) -> None:
    def answer(argv: tuple[str, ...], _stdin: str) -> Says | None:
        return Says(log) if "iotrial-logs" in argv else None

    with pytest.raises(CaseFailed, match=told):
        rehearse(one("stress/ocfs2-test"), answer)


def test_an_ocfs2_test_whose_programs_pass_passes() -> None:
    log = LOG.format("holes", "PASSED")
    rehearse(
        one("stress/ocfs2-test"),
        lambda argv, _stdin: Says(log) if "iotrial-logs" in argv else None,
    )


class Mirror:
    """A mirror whose members come back at once."""

    def __init__(self, differ: int = 0, load: str = FIO) -> None:
        self.differ = differ
        self.load = load
        self.failed = ""

    def answer(self, argv: tuple[str, ...], _stdin: str) -> Says | None:
        words = " ".join(argv)
        if "--fail" in argv:
            self.failed = argv[-1]
        text = "md100 : active raid1 a b\n      9 blocks [2/2] [UU]\n"
        files = "sync_action=idle\ndegraded=0\nraid_disks=2\nlevel=raid1\n"
        answers = {
            "iotrial-look": f"{files}\n{text}",
            "--detail": "        Raid Level : raid1\n      Raid Devices : 2\n     State : clean\n",
            "/state": "faulty\n",
            "mismatch_cnt": f"{self.differ}\n",
            "array_state": "clean\n",
            "iotrial-load": self.load,
        }
        return Says(next((said for part, said in answers.items() if part in words), ""))


def test_a_mirror_whose_members_are_alike_after_it_all_passes() -> None:
    done = rehearse(one("stress/md-fail-and-re-add"), Mirror().answer)
    assert sum("--re-add" in step.argv for step in done) == 4


@pytest.mark.parametrize(
    ("mirror", "told"),
    [
        (Mirror(differ=128), "differ in 128 sectors"),
        (Mirror(load=FIO.replace('"error": 0', '"error": 84')), "errno 84"),
        (Mirror(load=""), "fio says no result"),
    ],
)
def test_a_mirror_that_loses_a_byte_is_found_out(mirror: Mirror, told: str) -> None:
    with pytest.raises(CaseFailed, match=told):
        rehearse(one("stress/md-fail-and-re-add"), mirror.answer)

"""What fio would take for something else than it says is refused, before anything is started."""

from __future__ import annotations

import itertools
import os
import subprocess
from pathlib import Path
from typing import Literal

import pytest

from iotrial.errors import StudyError, TargetRefused, UsageError
from iotrial.formats.fio.jobfile import misread, parse, unwritable
from iotrial.hosts.local import LocalHost
from iotrial.look.targets import ready
from iotrial.model.target import Target
from iotrial.model.tool import ToolTarget
from iotrial.model.workload import OptionValue, Workload
from iotrial.plan.load import parse_study
from iotrial.tools import tool

FIO, IOZONE = tool("fio"), tool("iozone")
CUT = ["data;v2", "data#v2", "data ", "data\t", "data\r", "data\x01", "data\x7f", "a b;", "a\n"]
KEPT = ["data v2", "da$ta", "dätä", "data,v2", "data\xa0", "data:v2", "a\nb", 'a"b', "a\\"]
LOGS = ["write_bw_log", "write_lat_log", "write_iops_log", "write_hist_log"]
JOBS = "[a]\nrw=read\n"


def load(jobfile: str = "", **options: OptionValue) -> Workload:
    return Workload("w", "fio", tuple(options.items()), jobfile=jobfile)


def wrong(jobfile: str, **options: OptionValue) -> str:
    return "\n".join(what for _, what in FIO.check(load(jobfile, **options), {}))


# Paths.


@pytest.mark.parametrize("kind", ["file", "device"])
@pytest.mark.parametrize("workload", [load(rw="read"), load(rw="randwrite"), load(JOBS)])
@pytest.mark.parametrize("name", CUT)
def test_a_path_that_fio_would_cut_is_not_passed_on(
    name: str, workload: Workload, kind: Literal["file", "device"]
) -> None:
    with pytest.raises(UsageError, match="would open another file than"):
        FIO.command(workload, ToolTarget(f"/mnt/x/{name}", kind, 2**20), {})


@pytest.mark.parametrize("name", KEPT)
def test_a_path_that_only_looks_odd_is_passed_on(name: str) -> None:
    made = FIO.command(load(rw="read"), ToolTarget(f"/mnt/x/{name}", "file", 2**20), {})
    assert f"--filename=/mnt/x/{name}".replace(":", "\\:") in made.argv


@pytest.mark.parametrize("name", CUT)
def test_what_stands_before_our_own_folder_is_not_cut(name: str) -> None:
    made = FIO.command(load(rw="read"), ToolTarget(f"/mnt/{name}", "directory", 2**20), {})
    assert f"--directory=/mnt/{name}/iotrial-fio/data" in made.argv


def study(place: str, workload: str) -> str:
    return f"""\
question = "Which?"
[targets.t]
{place}
[workloads.w]
{workload}
[factors.depth]
option = "{"threads" if "iozone" in workload else "iodepth"}"
levels = [1, 2]
[design]
blocks = 3
[decide]
primary = "read.iops"
margin = "2%"
"""


LOAD = 'tool = "fio"\noptions = { rw = "randread", runtime = "1s" }'
STAND_IN = 'tool = "iozone"\noptions = { stand_in = "fio", size = "1m" }'


@pytest.mark.parametrize(
    ("place", "workload"),
    [('file = "/mnt/data;v2"\nsize = "1MiB"', LOAD), ('file = "/mnt/data "\nsize = "1MiB"', LOAD),
     ('directory = "/mnt/folder;2"', STAND_IN), ('directory = "/mnt/folder "', STAND_IN)],
)  # fmt: skip
def test_a_study_of_a_path_that_fio_would_cut_does_not_load(place: str, workload: str) -> None:
    def text(name: str) -> str:
        raise AssertionError(name)

    with pytest.raises(StudyError, match=r"fio would (open|load) other|another") as caught:
        parse_study(study(place, workload), "study.toml", text)
    assert caught.value.line == 3
    parse_study(study(place.replace(";", "").replace(' "', '"'), workload), "study.toml", text)


@pytest.mark.parametrize("folder", ["/mnt/a;2", "/mnt/a#", "/mnt/a ", "/mnt/$a", "/mnt/a\nb"])
def test_fio_does_not_stand_in_where_its_job_file_would_name_other_files(folder: str) -> None:
    own = Workload("w", "iozone", (("size", "1m"),))
    with pytest.raises(UsageError, match="would load other files"):
        IOZONE.command(
            Workload("w", "iozone", (*own.options, ("stand_in", "fio"))),
            ToolTarget(folder, "directory"), {},
        )  # fmt: skip
    IOZONE.command(own, ToolTarget(folder, "directory"), {})


@pytest.mark.parametrize("name", ["vict;new", "vict#", " vict", "$jobname"])
def test_fio_does_not_stand_in_beside_a_file_whose_name_it_would_change(name: str) -> None:
    workload = Workload("w", "iozone", (("size", "1m"), ("stand_in", "fio")))
    with pytest.raises(UsageError, match="would load other files"):
        IOZONE.command(workload, ToolTarget(f"/mnt/{name}", "file", 2**20), {})


def test_a_job_file_can_name_less_than_a_command_line() -> None:
    assert all(unwritable(name) for name in (*CUT, "a$b", "a\nb"))
    assert not any(unwritable(name) for name in ("/mnt/a b", "/mnt/é", "a:b", "a,b"))


# Sections, lines, and what is made of their names.


@pytest.mark.parametrize(
    "head", ["[job", "[job.", "[jobs", "[job]x", "[job]]", "[job;x]", "[job#]", "[]", "[a]b]",
             "[global", f"[{'n' * 255}]", "[jobé"],
)  # fmt: skip
def test_a_section_whose_name_fio_would_change_is_refused(head: str) -> None:
    assert "fio would drop its last character" in wrong(f"[x]\nrw=read\n{head}\nrw=read\n")
    assert [line for line, _ in misread(f"[x]\nrw=read\n{head}\nrw=read\n")] == [3]


@pytest.mark.parametrize("head", ["[job]", " [job] ", "[job] ; words", "[j#", "[two words]", "[é]"])
def test_a_whole_section_is_not_refused(head: str) -> None:
    found = list(misread(f"{head}\nrw=read\n"))
    assert bool(found) == (head == "[j#")


@pytest.mark.parametrize("size", [4095, 4096, 8191, 8192])
def test_a_line_of_which_fio_would_make_two_is_refused(size: int) -> None:
    for begin in (";", "description="):
        line = begin.ljust(size, "x")
        assert "line 3: fio reads a line behind" in wrong(f"{JOBS}{line}filename=/dev/sda\n")
    assert not wrong(f"{JOBS};{'x' * 3000}\n")


@pytest.mark.parametrize("option", LOGS)
@pytest.mark.parametrize("value", ["", "="])
def test_a_log_that_is_named_after_its_job_stays_in_the_trials_folder(
    option: str, value: str
) -> None:
    body = f"rw=read\nfilename=/mnt/x/new\n{option}{value}\n"
    assert "leads elsewhere" in wrong(f"[/root/vict]\n{body}")
    assert "leads elsewhere" in wrong(f"[a]\nname=../../vict\n{body}")
    assert "leads elsewhere" in wrong(f"[global]\n{option}\n[a/b]\n{body}")
    assert "leads elsewhere" in wrong("[a/b]\nrw=read\nfilename=/mnt/x/new\n", **{option: ""})
    assert not wrong(f"[a]\n{body}")
    assert not wrong("[read/write]\nrw=read\nfilename=/mnt/x/new\n")
    assert not wrong(f"[read/write]\nrw=read\nfilename=/mnt/x/new\n{option}=mine\n")


@pytest.mark.parametrize("body", ["filename=:\n", "filename=\n", "directory=:\n", "opendir=\n"])
def test_an_option_that_names_no_file_is_refused(body: str) -> None:
    assert "it names nothing" in wrong(f"[a]\nrw=read\n{body}")


@pytest.mark.parametrize("name", [".", "..", "socket"])
def test_a_job_named_after_a_folder_that_is_there_is_refused(name: str) -> None:
    assert "folder of that name" in wrong(f"[{name}]\ndirectory=/mnt/x\nrw=write\n")
    assert not wrong(f"[{name}]\nfilename=/mnt/x/y\nrw=write\n")


# Files that nobody named.


@pytest.mark.parametrize(
    "body", ["rw=write", "rw=randrw", "rw=read\nsize=1m", "rw=read\nfilesize=1m", "rw=read\nunlink",
             "rw=read\noverwrite=1", "rw=read\nioengine=filedelete"],
)  # fmt: skip
@pytest.mark.parametrize("head", ["", "[global]\nopendir=/mnt/x/d\n"])
def test_opendir_is_for_jobs_that_change_no_file(body: str, head: str) -> None:
    text = f"{head}[a]\n{body}\n" if head else f"[a]\nopendir=/mnt/x\n{body}\n"
    assert "every file that fio finds there" in wrong(text)
    assert not wrong("[a]\nopendir=/mnt/x\nrw=randread\nbs=4k\n")


KINDS = ["fifo", *(["block", "char"] if os.geteuid() == 0 else [])]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rw", ["read", "write"])
@pytest.mark.parametrize(
    "names", ["filename={}/node", "directory={}\nfilename=node", "directory={}\n[node]"]
)
def test_what_is_no_file_in_a_directory_is_not_loaded(
    kind: str, rw: str, names: str, tmp_path: Path
) -> None:
    """A node by its name, in a directory or made from a job's own: through it a device is loaded
    that nobody aimed at.  Links to one lead to the same."""
    folder = tmp_path / "target"
    folder.mkdir(mode=0o700)
    job = f"[global]\nrw={rw}\nbs=4k\n" + ("" if "[" in names else "[a]\n") + names
    node = folder / ("node.0.0" if "[" in names else "node")
    make = {"fifo": ("p",), "block": ("b", "7", "4095"), "char": ("c", "1", "7")}[kind]
    target = Target("d", "directory", str(folder))
    reach = FIO.reach(load(job.format(folder) + "\n"))
    ready(LocalHost(), target, reach)
    subprocess.run(["mknod", folder / "real", *make], check=True)
    for place in ("real", "node"):
        (node.symlink_to if place == "real" else (folder / "real").rename)(
            folder / "real" if place == "real" else node
        )
        with pytest.raises(TargetRefused, match="neither a file nor a folder"):
            ready(LocalHost(), target, reach)
        if place == "real":
            node.unlink()


# Files that may be read, and why others may not.


@pytest.mark.parametrize(
    "option", ["nrfiles=1", "zonemode=none", "write_hint=short", "fallocate=none"]
)
def test_an_option_that_changes_nothing_does_not_forbid_a_file(option: str, tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(bytes(4096))
    tmp_path.chmod(0o700)
    text = f"[a]\nrw=read\nfilename={tmp_path}/f\n{option}\n"
    ready(LocalHost(), Target("d", "directory", str(tmp_path)), FIO.reach(load(text)))
    assert not wrong(text)


@pytest.mark.parametrize("option", ["nrfiles=2", "zonemode=zbd", "zonemode=strided"])
def test_the_same_option_with_another_value_does(option: str, tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(bytes(4096))
    tmp_path.chmod(0o700)
    reach = FIO.reach(load(f"[a]\nrw=read\nfilename={tmp_path}/f\n{option}\n"))
    with pytest.raises(TargetRefused, match="exists, and the load would write to it"):
        ready(LocalHost(), Target("d", "directory", str(tmp_path)), reach)


@pytest.mark.parametrize("value", ["write:8", "wait_before:4", "write,wait_after:16"])
def test_sync_file_range_is_words_and_a_number(value: str) -> None:
    argv = FIO.command(
        load(rw="write", sync_file_range=value), ToolTarget("/f", "file", 2**20), {}
    ).argv
    assert f"--sync_file_range={value}" in argv


def test_a_refusal_says_which_option_reads_beyond_the_file(tmp_path: Path) -> None:
    file = tmp_path / "f"
    file.write_bytes(bytes(4096))
    tmp_path.chmod(0o700)
    text = f"[a]\nrw=read\nfilename={file}\nsize=64k\noffset=4k\n"
    for target in (Target("d", "directory", str(tmp_path)), Target("f", "file", str(file), 4096)):
        with pytest.raises(TargetRefused) as caught:
            ready(LocalHost(), target, FIO.reach(load(text)))
        (said,) = (line for line in caught.value.evidence if "the load reads" in line)
        assert "has 4.00 KiB, and the load reads 68.0 KiB (size=64k offset=4k)" in said


def test_the_advice_for_a_file_in_a_directory_can_be_followed(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(bytes(4096))
    tmp_path.chmod(0o700)
    reach = FIO.reach(load(f"[a]\nrw=write\nsize=4k\nfilename={tmp_path}/f\n"))
    with pytest.raises(TargetRefused, match="move this one away") as caught:
        ready(LocalHost(), Target("d", "directory", str(tmp_path)), reach)
    assert "destroy = " not in str(caught.value)


@pytest.mark.parametrize(
    "sizes", [f"{size}\n{offset}" for size, offset in itertools.product(
        ("size=256k", "filesize=4k"), ("offset=50%", "offset_increment=10%\nnumjobs=2"))],
)  # fmt: skip
def test_bytes_behind_a_share_of_a_file_in_a_directory_are_refused(
    sizes: str, tmp_path: Path
) -> None:
    (tmp_path / "f").write_bytes(bytes(2**18))
    tmp_path.chmod(0o700)
    reach = FIO.reach(load(f"[a]\nrw=read\nfilename={tmp_path}/f\n{sizes}\n"))
    with pytest.raises(TargetRefused, match="exists, and the load would write to it"):
        ready(LocalHost(), Target("d", "directory", str(tmp_path)), reach)


def test_a_section_is_named_as_fio_names_it() -> None:
    heads = {"[job": "jo", "[job]x": "job]", "[job]]": "job]", "[job;x]": "jo", "[job ]": "job "}
    for head, name in heads.items():
        assert [each.name for each in parse(f"{head}\nrw=read\n").sections] == [name]

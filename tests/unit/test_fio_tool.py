"""What iotrial asks of fio, what it refuses to ask, and what it knows beforehand."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iotrial.errors import FormatError, UsageError
from iotrial.model.tool import LoadAccess, LoadBarrier, ToolTarget
from iotrial.model.workload import OptionValue, Workload
from iotrial.tools import fio_options as rules
from iotrial.tools import tool, tools
from iotrial.tools.fio import TOOL
from iotrial.tools.fio_options import duration, option_table, spelled

DATA = Path(__file__).parent.parent / "data" / "fio"
DEVICE = ToolTarget("/dev/loop7", "device")
FACTS = {"cpus": 4.0, "memory": 2.0**34, "io_uring": 1.0}


def load(**options: OptionValue) -> Workload:
    return Workload("load", "fio", tuple(options.items()))


def job(text: str, **options: OptionValue) -> Workload:
    return Workload("load", "fio", tuple(options.items()), text)


def command(workload: Workload, aimed: ToolTarget = DEVICE, **facts: float) -> set[str]:
    return set(TOOL.command(workload, aimed, {**FACTS, **facts}).argv)


def complaints(workload: Workload) -> dict[str, str]:
    return dict(TOOL.check(workload, FACTS))


GATE = LoadBarrier("every", "first")


@pytest.mark.parametrize(
    ("workload", "words"),
    [
        (load(rw="randread", runtime="1s", numjobs=4), "every"),
        (job("[a]\nrw=read\n[b]\nrw=read\n"), "every"),
        (job("[a]\nrw=read\nstonewall\n[b]\nrw=read\n"), "every"),
        (job("[a]\nrw=read\n[b]\nrw=read\nstonewall\n"), "first"),
        (job("[a]\nrw=read\n[b]\nrw=read\nwait_for=a\n"), "first"),
    ],
)
def test_the_first_jobs_wait_at_a_gate_before_their_clock_starts(
    workload: Workload, words: str
) -> None:
    plain = TOOL.command(workload, DEVICE, FACTS)
    gated = TOOL.gated(plain, workload, GATE)
    assert gated is not None
    added = [word for word in gated.argv if word not in plain.argv]
    assert added == [f"--exec_prerun={words} #"]
    assert [word for word in gated.argv if word not in added] == [*plain.argv]
    assert gated.argv.index(added[0]) < len(gated.argv) - 1  # before a job file: for all its jobs
    assert gated.files == plain.files


def test_a_start_delay_counts_from_the_start_of_fio_so_that_it_does_not_wait_inside() -> None:
    workload = load(rw="randread", runtime="1s", startdelay="1s")
    assert TOOL.gated(TOOL.command(workload, DEVICE, FACTS), workload, GATE) is None


def test_the_registry_finds_fio_and_names_the_nearest() -> None:
    assert tools()["fio"] is tool("fio") is TOOL
    with pytest.raises(UsageError, match="did you mean 'fio'"):
        tool("foi")


def test_a_random_read_is_direct_asynchronous_timed_and_not_repeated() -> None:
    workload = load(rw="randread", bs="4k", iodepth=32, ramp_time="2s", runtime="10s")
    argv = TOOL.command(workload, DEVICE, FACTS).argv
    assert argv[:4] == ("fio", "--output-format=json+", "--output=fio.json", "--eta=never")
    assert set(argv[4:]) == {
        "--name=load", "--filename=/dev/loop7", "--allow_file_create=0", "--rw=randread",
        "--bs=4k", "--iodepth=32", "--ramp_time=2s", "--runtime=10s", "--ioengine=io_uring",
        "--direct=1", "--time_based=1", "--norandommap=1", "--randrepeat=0",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("options", "there", "gone"),
    [
        ({"buffered": True}, "--buffered=1", "--direct=1"),
        ({"direct": False}, "--direct=0", "--direct=1"),
        ({"ioengine": "psync"}, "--ioengine=psync", "--ioengine=io_uring"),
        ({"ioengine": "auto"}, "--ioengine=io_uring", "--ioengine=auto"),
        ({"runtime": 1, "time_based": False}, "--time_based=0", "--time_based=1"),
        ({"rw": "randwrite", "runtime": 1, "verify": "crc32c"}, "--verify=crc32c",
         "--norandommap=1"),
        ({"rw": "read", "runtime": 1}, "--time_based=1", "--norandommap=1"),
        ({"blocksize": "8k"}, "--bs=8k", "--blocksize=8k"),
        ({"numjobs": "2*cpus"}, "--numjobs=8", "--numjobs=2*cpus"),
        ({"size": "memory/1024"}, "--size=16777216", "--size=memory/1024"),
        ({"runtime": 0.5}, "--runtime=500ms", "--runtime=0.5"),
        ({"ramp_time": "1.5s"}, "--ramp_time=1500ms", "--ramp_time=1.5s"),
        ({"randrepeat": True}, "--randrepeat=1", "--randrepeat=0"),
        ({"bs": "4k,64k"}, "--bs=4k,64k", "--bs=4"),
        ({"bsrange": "4k-64k"}, "--bsrange=4k-64k", ""),
        ({"size": "50%"}, "--size=50%", ""),
    ],
)  # fmt: skip
def test_what_a_study_says_is_said_to_fio(
    options: dict[str, OptionValue], there: str, gone: str
) -> None:
    words = command(load(**options))
    assert there in words
    assert gone not in words


def test_without_io_uring_the_engine_is_libaio() -> None:
    assert "--ioengine=libaio" in command(load(rw="read"), io_uring=0)
    assert "--ioengine=libaio" in TOOL.command(load(rw="read"), DEVICE, {}).argv


def test_targets_become_filename_directory_and_size() -> None:
    words = command(load(rw="read"), ToolTarget("/mnt/a:b/file", "file", 2**20))
    assert {r"--filename=/mnt/a\:b/file", "--size=1048576"} <= words
    assert "--allow_file_create=0" not in words
    words = command(load(rw="read", numjobs=4), ToolTarget("/mnt/x", "directory", 2**20))
    assert {"--directory=/mnt/x/iotrial-fio/data", "--size=262144"} <= words
    assert "--size=1m" in command(load(rw="read", size="1m"), ToolTarget("/mnt/x", "directory"))
    with pytest.raises(UsageError, match="needs a size in directory /mnt/x"):
        command(load(rw="read"), ToolTarget("/mnt/x", "directory"))


@pytest.mark.parametrize(
    ("options", "option", "problem"),
    [
        ({"iodeph": 32}, "iodeph", "did you mean 'iodepth'"),
        ({"quantum": 1}, "quantum", "fio has no option"),
        ({"rw": "randreed"}, "rw", "is not one of .*randread"),
        ({"exec_prerun": "true"}, "exec_prerun", "execute a command"),
        ({"exec_postrun": "true"}, "exec_postrun", "execute a command"),
        ({"ioengine": "exec", "size": 1}, "ioengine", "may reach beyond"),
        ({"ioengine": "external:/tmp/x.so"}, "ioengine", "may reach beyond"),
        ({"ioengine": "rbd"}, "ioengine", "may reach beyond"),
        ({"ioscheduler": "none"}, "ioscheduler", "make queue.scheduler a factor"),
        ({"filename": "/dev/sda"}, "filename", r"under \[targets\]"),
        ({"directory": "/tmp"}, "directory", r"under \[targets\]"),
        ({"output": "x"}, "output", "trial's folder"),
        ({"fill_fs": True}, "fill_fs", "until no space is left"),
        ({"create_only": True}, "create_only", "measures nothing"),
        ({"allow_mounted_write": 1}, "allow_mounted_write", "never writes to a mounted"),
        ({"read_iolog": "x"}, "read_iolog", "cannot check"),
        ({"profile": "act"}, "profile", "not possible to tell"),
        ({"numjobs": "2*cpu"}, "numjobs", "did you mean 'cpus'"),
        ({"numjobs": "cpus/8"}, "numjobs", "less than one"),
        ({"numjobs": "2cpus"}, "numjobs", "neither a number nor an expression"),
        ({"bs": "$pagesize*2"}, "bs", "shell"),
        ({"verify_pattern": "a\nb"}, "verify_pattern", "cannot be shown"),
        ({"runtime": "soon"}, "runtime", "not a duration"),
        ({"runtime": "1 parsec"}, "runtime", "'1 parsec': unknown unit 'parsec'"),
        ({"bs": "fourk"}, "bs", "nor a size such as 4k.*'fourk'; expressions may use cpus"),
        ({"rw": "random"}, "rw", r"did you mean randrw or randread or randwrite\?"),
        ({"rw": "raed"}, "rw", r"did you mean read"),
        ({"rw": "random-trim"}, "rw", r"did you mean randtrim"),
        ({"runtime": 0}, "runtime", "zero seconds"),
        ({"time_based": True}, "time_based", "needs a runtime"),
        ({"ioengine": "psync", "iodepth": 8}, "iodepth", "one I/O in flight"),
        ({"bs": "4k", "blocksize": "8k"}, "blocksize", "already given"),
    ],
)  # fmt: skip
def test_an_option_that_cannot_work_is_named_with_what_to_do(
    options: dict[str, OptionValue], option: str, problem: str
) -> None:
    found = complaints(load(**options))
    assert list(found) == [option]
    assert re.search(problem, found[option])
    with pytest.raises(UsageError, match=f"workload load: {option}: "):
        command(load(**options))


@pytest.mark.parametrize("name", ["global", "global2", "a/b"])
def test_a_workload_whose_name_means_something_to_fio_is_refused(name: str) -> None:
    assert TOOL.check(Workload(name, "fio", (("rw", "read"),)), FACTS)[0][0] == "name"


@pytest.mark.parametrize(
    ("options", "reads", "writes"),
    [({}, True, False), ({"rw": "randread"}, True, False), ({"rw": "write"}, False, True),
     ({"readwrite": "randrw"}, True, True), ({"rw": "randwrite:8"}, False, True),
     ({"rw": "trim"}, False, True), ({"rw": "write", "verify": "md5"}, True, True),
     ({"ioengine": "filedelete"}, True, True), ({"rw": "whatever"}, True, True)],
)  # fmt: skip
def test_reach_says_whether_a_load_reads_and_writes(
    options: dict[str, OptionValue], *, reads: bool, writes: bool
) -> None:
    assert TOOL.reach(load(**options)) == LoadAccess(reads, writes)


def test_reach_names_every_file_and_command_of_a_job_file() -> None:
    text = """\
[global]
filename=/dev/a:/dev/b\\:c
exec_prerun=echo hello
[one]
rw=read
[two]
filename=/dev/d ; not /dev/e
rw=randwrite
write_bw_log=/root/log
write_lat_log=here
[three]
ioengine=external:/tmp/x.so
mem=mmaphuge:/mnt/huge
"""
    assert TOOL.reach(job(text)) == LoadAccess(
        reads=True,
        writes=True,
        paths=("/dev/a", "/dev/b:c", "/dev/d", "/root/log", "/mnt/huge"),
        runs=("echo hello", "external:/tmp/x.so"),
    )


def test_files_of_a_job_lie_in_its_directory() -> None:
    assert TOOL.reach(job("[a]\ndirectory=/mnt\nfilename=x:y\n")).paths == ("/mnt/x", "/mnt/y")
    assert TOOL.reach(job("[a]\ndirectory=/mnt\n")).paths == ("/mnt/a.0.0",)


def test_a_job_is_in_the_directory_that_is_known_when_its_name_is_read() -> None:
    """As fio 3.33 has it; held against fio itself in tests/integration/test_fio_names.py."""
    late = "[global]\nfilename=/dev/x\n[a]\ndirectory=/mnt\n"
    assert TOOL.reach(job(late)).paths == ("/dev/x",)
    early = "[global]\ndirectory=/mnt\n[a]\nfilename=/dev/x\n"
    assert TOOL.reach(job(early)).paths == ("/mnt//dev/x",)
    together = "[a]\nfilename=x\ndirectory=/mnt\n"
    assert TOOL.reach(job(together)).paths == ("/mnt/x",)


READS_ONLY = {"rw": "randread", "bs": "4k", "iodepth": 4, "runtime": "2s", "ioengine": "libaio"}


@pytest.mark.parametrize("option", sorted(rules.option_table().kinds))
def test_an_option_leaves_a_file_as_it_is_only_where_that_is_known(option: str) -> None:
    """None that lays out, extends, truncates or removes; and of a newer fio, none."""
    reach = TOOL.reach(load(**(READS_ONLY | {option: "read" if option == "rw" else 1})))
    known = option in rules.HARMLESS or option in rules.COMMAND_OPTIONS
    known |= "1" in rules.HARMLESS_AT.get(option, ())
    assert known or reach.alters or reach.writes
    assert option not in rules.HARMLESS or not reach.alters
    assert not TOOL.reach(load(**READS_ONLY)).alters


@pytest.mark.parametrize(
    ("options", "extent"),
    [
        ({}, 0),
        ({"size": "2m"}, 2 * 2**20),
        ({"size": "64k", "filesize": "1m-3m"}, 3 * 2**20),
        ({"size": "1m", "offset": "512k"}, 3 * 2**19),
        ({"size": "1m", "offset_increment": "1m", "numjobs": 4}, 4 * 2**20),
        ({"size": "100%", "offset": "50%"}, 0),
    ],
)
def test_what_a_load_needs_of_a_file(options: dict[str, OptionValue], extent: int) -> None:
    reach = TOOL.reach(load(**(READS_ONLY | options)))
    assert (reach.extent, reach.alters) == (extent, ())


@pytest.mark.parametrize("size", ["200%", "2*cpus", "-1", "0x100000", "${SIZE}", "1e9", ""])
def test_a_size_that_cannot_be_told_counts_as_writing(size: str) -> None:
    assert TOOL.reach(job(f"[a]\nrw=read\nsize={size}\n")).alters == (f"size={size}",)


@pytest.mark.parametrize("name", ["../x", "/dev/sda", "a/b", "../../etc/x"])
def test_a_job_that_fio_names_files_after_holds_no_slash(name: str) -> None:
    assert "rename it" in dict(TOOL.check(job(f"[{name}]\nrw=read\n"), {}))["jobfile"]
    form = f"[a]\nfilename_format={name}\nrw=read\n"
    assert "leads elsewhere" in dict(TOOL.check(job(form), {}))["jobfile"]


def test_files_that_a_job_file_names_in_a_directory_are_left_there() -> None:
    aimed = ToolTarget("/mnt/x", "directory", 2**20)
    text = "[a]\ndirectory=/mnt/x\nnumjobs=2\n[b]\nfilename=/mnt/x/b:/mnt/xy/c\n"
    left = ("/mnt/x/a.0.0", "/mnt/x/a.1.0", "/mnt/x/b")
    assert [each.path for each in TOOL.leaves(job(text), aimed, {})] == list(left)


def test_a_job_file_is_passed_whole_and_the_target_only_where_it_names_none() -> None:
    text = "[global]\nrw=read\n[one]\nruntime=1\n"
    found = TOOL.command(job(text, bs="8k"), DEVICE, FACTS)
    assert found.files == (("job.fio", text.encode()),)
    assert found.argv[4:] == (
        "--filename=/dev/loop7", "--allow_file_create=0", "--bs=8k", "job.fio"
    )  # fmt: skip
    named = TOOL.command(job("[one]\nfilename=/dev/x\n"), DEVICE, FACTS)
    assert named.argv[4:] == ("job.fio",)


@pytest.mark.parametrize(
    ("text", "problem"),
    [("[a]\nexec_prerun=x\n", "execute a command"), ("[a]\nioengine=exec\n", "beyond the target"),
     ("[a]\niodeph=1\n", "did you mean 'iodepth'"), ("include x\n[a]\n", "include"),
     ("[a]\nfilename=${DISK}\n", r"without \$"), ("[a]\nfilename=x\n[b]\nrw=read\n", "or none"),
     ("[a]\nruntime=1sec\n", "as it is meant"), ("[a]\nruntime=2min\n", "as it is meant"),
     ("[a]\nruntime=1 s\n", "as it is meant"), ("[a]\nruntime=0.5\n", "500ms"),
     ("[global]\n", "no job"), ("[a]\nbs=8k\n", "would win"),
     ("[a]\nioscheduler=bfq\n", "a factor"), ("[a]\nblocksize=8k\n", "would win"),
     ("[a]\niodepth=8\n", "ioengine=psync keeps one"), ("[a]\ntime_based\n", "needs a runtime")],
)  # fmt: skip
def test_a_job_file_that_cannot_work_is_refused(text: str, problem: str) -> None:
    own: dict[str, OptionValue] = {"bs": "4k"} if "would" in problem else {}
    found = TOOL.check(job(text, **own), FACTS)
    assert [option for option, what in found if re.search(problem, what)]


def test_a_recorded_job_file_has_nothing_wrong() -> None:
    text = (DATA / "stonewall" / "job.fio").read_text()
    assert TOOL.check(job(text), FACTS) == []
    assert TOOL.seconds(job(text), DEVICE) == pytest.approx(3.35)


@pytest.mark.parametrize(
    ("options", "seconds"),
    [({"runtime": "10s", "ramp_time": "500ms"}, 10.85), ({"runtime": "1m"}, 60.35),
     ({"runtime": 2, "startdelay": "1-3"}, 5.35), ({"timeout": 2}, 2.35)],
)  # fmt: skip
def test_a_load_lasts_as_long_as_it_says(options: dict[str, OptionValue], seconds: float) -> None:
    assert TOOL.seconds(load(**options), DEVICE) == pytest.approx(seconds)


def test_without_a_runtime_a_load_lasts_as_long_as_a_slow_disk_needs() -> None:
    file = ToolTarget("/mnt/x", "file", 2**30)
    assert TOOL.seconds(load(rw="read", bs="1m"), file) > 30
    assert TOOL.seconds(load(rw="randread"), file) > TOOL.seconds(load(rw="read"), file)
    assert TOOL.seconds(load(rw="read", size="10%"), file) < 10


@pytest.mark.parametrize(
    ("version", "problem"),
    [("fio-3.33\n", ""), ("fio-3.0", ""), ("fio-3.38-15-gabc", ""), ("fio-4.1", ""),
     ("fio-2.1.10", "fio-2.1 is too old"), ("fio-2.99", "too old"), ("", "not a version"),
     ("Fio 1.2.3, the Fiona CLI", "another program")],
)  # fmt: skip
def test_an_old_fio_is_told_from_a_new_one(version: str, problem: str) -> None:
    assert problem in TOOL.version_problem(version)
    assert bool(problem) == bool(TOOL.version_problem(version))


def test_a_recorded_folder_is_parsed_and_an_empty_one_is_not(tmp_path: Path) -> None:
    assert TOOL.parse(DATA / "mix").measurements
    with pytest.raises(FormatError, match=r"fio\.json: fio wrote no report"):
        TOOL.parse(tmp_path)


@pytest.mark.parametrize("text", ["1s", "1", "2m", "700ms", "700msec", "9us", "9USEC", "1h", "1d"])
def test_a_job_file_may_spell_times_as_fio_does(text: str) -> None:
    assert not TOOL.check(job(f"[a]\nrw=read\nruntime={text}\n"), FACTS)


@pytest.mark.parametrize(
    ("text", "spelt"), [("5 secs", "5s"), ("1 sec", "1s"), ("2 min", "120s"), ("1 minute", "60s")]
)
def test_times_in_options_are_respelt_for_fio(text: str, spelt: str) -> None:
    assert f"--runtime={spelt}" in command(load(rw="read", runtime=text))


@pytest.mark.parametrize("option", ["runtime", "ramp_time", "startdelay"])
@pytest.mark.parametrize("value", [-1, "-", "1-", "2s-x"])
def test_a_time_below_nothing_is_a_problem_of_its_option(option: str, value: OptionValue) -> None:
    found = TOOL.check(load(rw="read", **{option: value}), FACTS)
    assert option in [name for name, _ in found]


@given(st.floats(1e-6, 1e6))
def test_durations_are_spelled_without_loss(seconds: float) -> None:
    assert duration(spelled(seconds)) == pytest.approx(seconds, abs=1e-6)


@given(st.dictionaries(st.sampled_from(sorted(option_table().kinds)), st.text() | st.integers()))
def test_any_options_are_refused_with_reasons_or_become_words(
    options: dict[str, OptionValue],
) -> None:
    workload = load(**options)
    if TOOL.check(workload, FACTS):
        return
    for word in TOOL.command(workload, ToolTarget("/f", "file", 2**20), FACTS).argv[1:]:
        assert re.match(r"--[a-z_-]+=", word)
    TOOL.reach(workload)
    assert TOOL.seconds(workload, DEVICE) > 0


@pytest.mark.skipif(not shutil.which("fio"), reason="fio is not installed")
def test_the_table_holds_every_option_this_fio_has() -> None:
    shown = subprocess.run(["fio", "--cmdhelp=all"], capture_output=True, text=True, check=True)
    names = {line.split(":")[0].strip() for line in shown.stdout.splitlines() if ":" in line}
    assert len(names) > 150
    assert names <= option_table().kinds.keys()
    assert set(option_table().kinds.values()) == {"text", "number", "switch", "time"}


@pytest.mark.parametrize(
    ("option", "said", "passed"),
    [
        ("size", "64MiB", "67108864"),
        ("bs", "4KiB", "4096"),
        ("bs", "4KiB,64KiB", "4096,65536"),
        ("bssplit", "4KiB/60:64KiB/40", "4096/60:65536/40"),
        ("bs", "4k", "4k"),
    ],
)
def test_binary_sizes_mean_what_they_say(option: str, said: str, passed: str) -> None:
    workload = Workload("w", "fio", (("rw", "randread"), ("runtime", "1s"), (option, said)))
    argv = TOOL.command(workload, ToolTarget("/dev/loop9", "device", 2**26), {"cpus": 2}).argv
    assert f"--{option}={passed}" in argv


LUNS = """\
; sixteen devices that are not here
[global]
ioengine=libaio
filename=/dev/mapper/one
filename = /dev/mapper/two
#filename=/dev/mapper/three
[first]
wait_for_previous
rw=read
runtime=10
time_based
[mixed]
wait_for_previous
rw=randrw
rwmixread=70
runtime=20
time_based
[mixed]
wait_for_previous
rw=randrw
rwmixread=40
runtime=20
time_based
"""


def test_the_target_may_stand_in_for_the_devices_of_a_job_file() -> None:
    assert TOOL.reach(job(LUNS)).paths == ("/dev/mapper/one", "/dev/mapper/two")
    workload = job(LUNS, filename="target")
    assert complaints(workload) == {}
    assert TOOL.reach(workload) == LoadAccess(reads=True, writes=True)
    asked = TOOL.command(workload, DEVICE, FACTS)
    assert "--filename=/dev/loop7" in asked.argv
    ((name, content),) = asked.files
    gone = {"filename=/dev/mapper/one", "filename = /dev/mapper/two"}
    assert name == "job.fio"
    assert content.decode().splitlines() == [x for x in LUNS.splitlines() if x not in gone]
    assert TOOL.seconds(workload, DEVICE) == pytest.approx(50.35)


def test_a_file_name_in_the_options_is_refused_without_a_job_file_or_with_another_word() -> None:
    assert "filename" in complaints(load(rw="read", filename="target"))
    assert "filename" in complaints(job(LUNS, filename="/dev/sda"))

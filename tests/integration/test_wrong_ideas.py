"""A user with a wrong idea: a clear error, the right exit code, and nothing changed."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

pytestmark = pytest.mark.root

STUDY = """
question = "Which scheduler?"
[targets.disk]
{target}
[workloads.reads]
tool = "fio"
options = {{ rw = "{rw}", bs = "4k", iodepth = 4, runtime = "0.2s" }}
[factors.scheduler]
tunable = "queue.scheduler"
levels = {levels}
[design]
blocks = 1
settle = "0s"
"""

Run = Callable[..., subprocess.CompletedProcess[str]]


def study_text(
    target: str, *, levels: str = '["none", "mq-deadline"]', rw: str = "randread"
) -> str:
    return STUDY.format(target=target, levels=levels, rw=rw)


@pytest.fixture
def run(tmp_path: Path, state: Path, loop_device: str) -> Iterator[Run]:
    """Run iotrial on a study text; afterwards the loop device must read as before."""
    before = queue(loop_device)

    def act(
        text: str,
        verb: str = "run",
        prefix: tuple[str, ...] = (),
        folder: Path = tmp_path,
        **environment: str,
    ) -> subprocess.CompletedProcess[str]:
        path = folder / "study.toml"
        path.write_text(text)
        out = ["--out", str(folder / "results")] if verb == "run" else []
        return subprocess.run(
            [*prefix, sys.executable, "-m", "iotrial.cli.main", verb, str(path), *out],
            capture_output=True,
            text=True,
            timeout=200,
            check=False,
            env=os.environ | environment,
        )

    yield act
    assert queue(loop_device) == before
    assert not list(state.glob("journal.d/*")), "something is still owed"


def queue(device: str) -> dict[str, str]:
    folder = Path("/sys/block", device, "queue")
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            try:
                found[str(path)] = path.read_text()
            except OSError as error:
                found[str(path)] = str(error.errno)
    return found


def test_a_misspelt_key_is_named_with_its_line_and_the_nearest(run: Run, loop_device: str) -> None:
    text = study_text(f'device = "/dev/{loop_device}"').replace("blocks = 1", "bloks = 1")
    done = run(text)
    assert done.returncode == 2
    line = text.splitlines().index("bloks = 1") + 1
    assert f"study.toml:{line}: design.bloks" in done.stderr
    assert "blocks" in done.stderr.replace("bloks", "")


def test_an_unknown_tunable_is_answered_with_the_nearest(run: Run, loop_device: str) -> None:
    text = study_text(f'device = "/dev/{loop_device}"')
    done = run(text.replace("queue.scheduler", "queue.sheduler"))
    assert done.returncode == 2
    assert "queue.scheduler" in done.stderr


@pytest.mark.parametrize("verb", ["plan", "run"])
def test_a_level_the_kernel_refuses_is_named(run: Run, loop_device: str, verb: str) -> None:
    text = study_text(f'device = "/dev/{loop_device}"', levels='["none", "cfq"]')
    done = run(text, verb)
    assert done.returncode == 2, done.stderr
    assert "'cfq' is not one of none, mq-deadline" in done.stderr


def test_a_scheduler_by_its_old_name_is_set_by_its_new_one_and_said(
    run: Run, loop_device: str
) -> None:
    text = study_text(f'device = "/dev/{loop_device}"', levels='["none", "deadline"]')
    done = run(text, "plan")
    assert done.returncode == 0, done.stderr
    assert "level deadline: queue.scheduler is set to mq-deadline here" in " ".join(
        done.stdout.split()
    )


@pytest.mark.parametrize("verb", ["plan", "run"])
def test_two_names_of_one_scheduler_are_no_two_levels(
    run: Run, loop_device: str, verb: str
) -> None:
    text = study_text(f'device = "/dev/{loop_device}"', levels='["none", "noop"]')
    done = run(text, verb)
    assert done.returncode == 2, done.stderr
    assert "'none' and 'noop' are identical on this host" in done.stderr


def test_a_cell_the_kernel_refuses_is_named_before_any_trial(
    run: Run, loop_device: str, tmp_path: Path
) -> None:
    text = study_text(f'device = "/dev/{loop_device}"') + (
        '[factors.requests]\ntunable = "queue.nr_requests"\nlevels = [64, 512]\n'
    )
    done = run(text)
    assert done.returncode == 2, done.stderr
    assert "scheduler=none requests=512" in done.stderr
    assert "exclude" in done.stderr
    assert not list((tmp_path / "results" / "trials").glob("*"))


@pytest.mark.parametrize(
    ("scheduler", "requests"),
    [(name, number) for name in ("none", "mq-deadline") for number in (128, 129, 2048, 2049)],
)
def test_a_plan_refuses_a_depth_that_this_kernel_refuses_and_no_other(
    run: Run, loop_device: str, scheduler: str, requests: int
) -> None:
    folder = Path("/sys/block", loop_device, "queue")
    offered = (folder / "scheduler").read_text()
    if scheduler not in offered:
        pytest.skip(f"this kernel has no {scheduler}")
    text = study_text(f'device = "/dev/{loop_device}"', levels=f'["{scheduler}"]') + (
        f'[factors.requests]\ntunable = "queue.nr_requests"\nlevels = [64, {requests}]\n'
    )
    done = run(text, "plan")
    (folder / "scheduler").write_text(scheduler)
    try:
        (folder / "nr_requests").write_text(str(requests))
    except OSError:
        assert done.returncode == 2, done.stderr
        assert f"cell scheduler={scheduler} requests={requests}: queue.nr_requests" in done.stderr
        assert f"{requests} on {loop_device} is above" in done.stderr
    else:
        assert done.returncode == 0, done.stderr
    finally:
        (folder / "scheduler").write_text(offered.partition("[")[2].partition("]")[0])


def test_a_mounted_device_is_refused(run: Run, loop_device: str, tmp_path: Path) -> None:
    node, mount = f"/dev/{loop_device}", tmp_path / "mnt"
    mount.mkdir()
    subprocess.run(["mkfs.ext4", "-q", node], check=True, timeout=200)
    subprocess.run(["mount", node, str(mount)], check=True, timeout=200)
    try:
        done = run(study_text(f'device = "{node}"'))
    finally:
        subprocess.run(["umount", str(mount)], check=True, timeout=200)
    assert done.returncode == 3
    assert "in use" in done.stderr
    assert str(mount) in done.stderr


def test_a_filesystem_signature_is_refused_even_when_armed(
    run: Run, loop_device: str, tmp_path: Path
) -> None:
    node = f"/dev/{loop_device}"
    subprocess.run(["mkfs.ext4", "-q", node], check=True, timeout=200)
    armed = f'device = "{node}"\ndestroy = "{tmp_path}/loop.img"'
    done = run(study_text(armed, rw="randwrite"))
    assert done.returncode == 3
    assert "ext4" in done.stderr


def test_writing_without_arming_says_what_to_write_in_the_study(
    run: Run, loop_device: str, tmp_path: Path
) -> None:
    done = run(study_text(f'device = "/dev/{loop_device}"', rw="randwrite"))
    assert done.returncode == 3
    assert f'destroy = "{tmp_path}/loop.img"' in done.stderr


@pytest.mark.parametrize("verb", ["plan", "run"])
def test_a_job_file_that_names_another_device_is_refused_for_a_loop_of_our_own(
    run: Run, loop_device: str, tmp_path: Path, verb: str
) -> None:
    before = Path("/dev", loop_device).read_bytes()
    (tmp_path / "own.fio").write_text(f"[job]\nrw=randwrite\nfilename=/dev/{loop_device}\n")
    text = study_text(f'loop = {{ size = "1MiB", directory = "{tmp_path}" }}')
    done = run(re.sub("options = .*", 'jobfile = "own.fio"', text), verb)
    assert done.returncode == 3, done.stderr
    assert f"names /dev/{loop_device}" in done.stderr
    assert Path("/dev", loop_device).read_bytes() == before


def test_a_level_that_makes_the_load_write_needs_arming(run: Run, loop_device: str) -> None:
    before = Path("/dev", loop_device).read_bytes()
    text = study_text(f'device = "/dev/{loop_device}"').replace('rw = "randread", ', "")
    text += '[factors.mix]\noption = "rw"\nlevels = ["randread", "randrw"]\n'
    for verb in ("plan", "run"):
        done = run(text + '[decide]\nprimary = "read.iops"\n', verb)
        assert done.returncode == 3, done.stderr
        assert "the load writes" in done.stderr
    assert Path("/dev", loop_device).read_bytes() == before


def test_a_missing_folder_is_refused_and_not_made(run: Run, tmp_path: Path) -> None:
    text = study_text(f'file = "{tmp_path}/gone/f.dat"\nsize = "1MiB"')
    done = run(text)
    assert done.returncode == 3
    assert "does not exist" in done.stderr
    assert not (tmp_path / "gone").exists()


def test_no_room_is_refused_with_what_is_left(run: Run, tmp_path: Path) -> None:
    done = run(study_text(f'loop = {{ size = "500TiB", directory = "{tmp_path}" }}'))
    assert done.returncode == 3
    assert "not enough space" in done.stderr
    assert "free" in done.stderr


def test_without_root_it_says_so_and_what_can_be_done(run: Run, loop_device: str) -> None:
    text = study_text(f'device = "/dev/{loop_device}"')
    bare = [sys.executable, "-c", "import iotrial"]
    nobody = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
    if subprocess.run([*nobody, *bare], capture_output=True, check=False, timeout=200).returncode:
        pytest.skip("another user cannot read this Python environment")
    # Not below pytest's own folder: another pytest closes that to others whenever it begins.
    with TemporaryDirectory(prefix="iotrial-test-", dir="/tmp") as name:
        folder = Path(name)
        folder.chmod(0o755)
        done = run(text, prefix=nobody, folder=folder, IOTRIAL_STATE=str(folder / "nobody"))
    assert done.returncode == 3, done.stderr
    assert "needs root" in done.stderr


def path_without_fio(folder: Path) -> str:
    """A PATH with everything but fio."""
    folder.mkdir()
    for place in (*os.environ["PATH"].split(":"), "/usr/sbin", "/sbin"):
        for program in Path(place).glob("*") if Path(place).is_dir() else ():
            if program.name != "fio" and not (folder / program.name).is_symlink():
                (folder / program.name).symlink_to(program)
    return str(folder)


def test_fio_missing_says_how_to_install_it(run: Run, loop_device: str, tmp_path: Path) -> None:
    text = study_text(f'device = "/dev/{loop_device}"')
    done = run(text, PATH=path_without_fio(tmp_path / "bin"))
    assert done.returncode == 5, done.stderr
    assert "fio is not installed" in done.stderr
    assert "apt-get install fio" in done.stderr


def test_fio_too_old_says_which_is_needed(run: Run, loop_device: str, tmp_path: Path) -> None:
    path = path_without_fio(tmp_path / "bin")
    old = tmp_path / "bin" / "fio"
    old.write_text("#!/bin/sh\necho fio-2.1.10\n")
    old.chmod(0o755)
    done = run(study_text(f'device = "/dev/{loop_device}"'), PATH=path)
    assert done.returncode == 5, done.stderr
    assert "fio-2.1" in done.stderr
    assert "too old" in done.stderr


def test_a_read_only_sys_is_refused_before_any_trial(
    run: Run, loop_device: str, tmp_path: Path
) -> None:
    if shutil.which("unshare") is None:
        pytest.skip("needs unshare(1)")
    script = 'mount -o remount,ro,bind /sys && exec "$@"'
    container = ("unshare", "--mount", "sh", "-c", script, "sh")
    done = run(study_text(f'device = "/dev/{loop_device}"'), prefix=container)
    assert done.returncode == 3, done.stderr
    assert "read-only" in done.stderr.lower()
    assert not list((tmp_path / "results").glob("trials/*"))


def test_a_journal_of_the_format_before_is_paid_and_a_damaged_one_is_named(
    run: Run, loop_device: str, state: Path
) -> None:
    folder = state / "journal.d"
    folder.mkdir(mode=0o700)
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    torn = folder / "20200101T000000-aaaa.journal"
    torn.write_text(f"open|2|t|{boot}|1|||.\nmade|file|fi")
    restore = [sys.executable, "-m", "iotrial.cli.main", "restore"]
    done = subprocess.run(restore, capture_output=True, text=True, check=False, timeout=200)
    assert done.returncode == 0, done.stderr
    assert not torn.exists()
    damaged = folder / "20200101T000000-bbbb.journal"
    damaged.write_text(f"open|2|t|{boot}|1|||.\nrot\n")
    done = run(study_text(f'device = "/dev/{loop_device}"'))
    assert done.returncode == 4, done.stderr
    assert f"{damaged}:2" in done.stderr
    forget = subprocess.run(
        [*restore, "--forget"], capture_output=True, text=True, check=False, timeout=200
    )
    assert forget.returncode == 0, forget.stderr
    assert not damaged.exists()


def test_a_results_folder_of_an_unknown_format_is_left_alone(
    run: Run, loop_device: str, tmp_path: Path
) -> None:
    (tmp_path / "results").mkdir()
    plan = tmp_path / "results" / "plan.jsonl"
    plan.write_text('{"format": 7}\n')
    done = run(study_text(f'device = "/dev/{loop_device}"'))
    assert done.returncode == 2
    assert "results format 7" in done.stderr
    assert plan.read_text() == '{"format": 7}\n'


def test_a_tool_that_fails_is_a_failed_trial_and_the_study_goes_on(
    run: Run, loop_device: str, tmp_path: Path
) -> None:
    text = study_text(f'device = "/dev/{loop_device}"').replace('bs = "4k"', 'bs = "300"')
    done = run(text)
    assert done.returncode == 5, done.stderr
    assert done.stderr.count("FAILED") == 2
    assert len(list((tmp_path / "results" / "trials").iterdir())) == 2


def test_a_full_disk_under_the_results_keeps_what_was_measured(
    run: Run, loop_device: str, tmp_path: Path, state: Path
) -> None:
    small = tmp_path / "results"
    small.mkdir()
    subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=96k", "tmpfs", str(small)], check=True, timeout=200
    )
    try:
        text = study_text(f'device = "/dev/{loop_device}"').replace("blocks = 1", "blocks = 9")
        done = run(text)
        committed = [p for p in (small / "trials").iterdir() if not p.name.endswith(".partial")]
        assert done.returncode == 5, done.stderr
        assert "No space left" in done.stderr
        assert committed, "nothing was kept"
    finally:
        subprocess.run(["umount", str(small)], check=True, timeout=200)

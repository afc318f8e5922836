"""Ten million trials of forty metrics, into both kinds of store, and what is asked of them.

    ./dev bench store [--trials 10000000] [--quick] [--only parquet] [--folder DIR]

A generated stream (_store_stream.py): results of 1,000 trials each, of 40 studies on 25 machines.
They are pushed into a folder of Parquet files and into a PostgreSQL server that is started for it,
on the disk of ``--folder``, with its usual settings but for the sockets' place.  Then the usual
questions are asked, each three times in a process of its own, the slowest counts; and results
folders of a pretended machine are pushed, which has to read, judge and digest them first.

The server's memory is not in the figure: its ``shared_buffers`` are the administrator's choice
(128 MiB unless somebody changes it).  Prints each figure beside its limit, and exits 1 when one is
missed.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from _limits import Limits, machine, note, run_main
from _store_stream import IN_RESULT, METRICS, STUDIES, stream

from iotrial_store.asked import ResultCondition, results, studies
from iotrial_store.opened import opened

RATE, FOLDERS, SECONDS, MEMORY = 20_000, 1000, 2.0, 1024
TIMES = 3
QUESTIONS: dict[str, str | ResultCondition | None] = {
    "the studies": None,
    "results where a setting was in force": ResultCondition(setting="queue.scheduler=kyber"),
    "results of a study on a machine": ResultCondition(study="study-07", machine="0" * 15 + "7"),
    "history of one metric of a study": (
        "SELECT began, treatment, n, mean, sd FROM points WHERE study = 'study-07'"
        " AND metric = 'm03.iops' ORDER BY treatment, began"
    ),
    "one metric of one treatment of a study, every trial": (
        "SELECT count(*), avg(value), stddev(value) FROM measurements WHERE result IN"
        " (SELECT result FROM results WHERE study = 'study-07' ORDER BY began DESC LIMIT 100)"
        " AND metric = 'm03.iops' AND treatment = 'scheduler=bfq, iodepth=8'"
    ),
    "every number of one of the results": (
        "SELECT * FROM measurements WHERE result ="
        " (SELECT result FROM results WHERE study = 'study-07' ORDER BY began LIMIT 1)"
    ),
    "machines by their mean of a metric": (
        "SELECT machine, count(*), exp(avg(ln(mean))) FROM points JOIN machines USING (result)"
        " WHERE metric = 'm03.iops' GROUP BY machine ORDER BY 3"
    ),
    "trials by state and study": (
        "SELECT study, sum(trials), sum(valid) FROM results GROUP BY study ORDER BY study"
    ),
}


def measured(act: Callable[..., object], *values: object) -> tuple[float, float, object]:
    """In a process of its own: seconds, MiB at most, and what ``act`` gives."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_child, args=(theirs, act, values))
    process.start()
    theirs.close()
    try:
        found: tuple[float, float, object] = ours.recv()
    except EOFError:
        raise SystemExit(f"{act.__name__} ended without an answer") from None
    process.join()
    return found


def _child(pipe: object, act: Callable[..., object], values: tuple[object, ...]) -> None:
    began = time.monotonic()
    found = act(*values)
    seconds = time.monotonic() - began
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    pipe.send((seconds, most, found))  # type: ignore[attr-defined]


def push_stream(url: str, trials: int) -> int:
    store = opened(url)
    counts = store.push(stream(trials))
    store.close()
    return counts.added


def ask(url: str, name: str) -> int:
    store = opened(url)
    asked = QUESTIONS[name]
    if asked is None:
        found = len(studies(store))
    elif isinstance(asked, ResultCondition):
        found = len(results(store, asked))
    else:
        found = len(store.query(asked).rows)
    store.close()
    return found


def push_folders(url: str, folders: list[Path]) -> float:
    """By the command, which starts processes of its own: MiB at most of any, times how many."""
    words = [sys.executable, "-m", "iotrial.cli.main", "push", "-q", "--store", url]
    done = subprocess.run(
        [*words, *map(str, folders)], check=True, stdout=subprocess.PIPE, text=True
    )
    assert done.stdout.startswith(f"{len(folders)} added"), done.stdout
    most = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    return most * (1 + len(os.sched_getaffinity(0)))


STUDY = """question = "Which scheduler?"
[targets.disk]
loop = { size = "64MiB" }
[workloads.load]
tool = "fio"
options = { rw = "randread", bs = "4k", runtime = "2s" }
[factors.scheduler]
tunable = "queue.scheduler"
levels = ["none", "mq-deadline", "kyber", "bfq"]
[design]
blocks = 50
settle = "0s"
[decide]
primary = "read.iops"
"""


def folders_in(top: Path, copies: int) -> tuple[list[Path], int]:
    """Results folders of a pretended machine, and how many trials they have together."""
    study, first = top / "study.toml", top / "results-0"
    study.write_text(STUDY)
    words = [sys.executable, "-m", "iotrial.cli.main", "run", str(study), "--pretend", "-q"]
    environment = {**os.environ, "IOTRIAL_STATE": str(top / "state")}
    subprocess.run(
        [*words, "--out", str(first)], check=True, stdout=subprocess.DEVNULL, env=environment
    )
    found = [first]
    for number in range(1, copies):
        other = top / f"results-{number}"
        shutil.copytree(first, other)
        sessions = other / "sessions.jsonl"
        row = json.loads(sessions.read_text())
        sessions.write_text(json.dumps({**row, "token": f"{row['token']}{number}"}) + "\n")
        found.append(other)
    return found, sum(len(list((folder / "trials").iterdir())) for folder in found)


@contextmanager
def server(top: Path) -> Iterator[str]:
    """A server of its own.  Raises OSError, CalledProcessError where there is none."""
    programs = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    if not programs:
        raise OSError("no PostgreSQL server is here (Debian: postgresql)")
    bin_ = programs[-1].parent
    folder = Path(tempfile.mkdtemp(prefix="iotrial-pg-", dir=top))
    sockets = Path(tempfile.mkdtemp(prefix="iotrial-pg-"))  # their paths are short
    own: list[str] = []
    if os.geteuid() == 0:  # it refuses to be root
        for each in (folder, sockets):
            shutil.chown(each, "postgres")
        own = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"]
    data = folder / "data"
    try:
        words = [*own, str(bin_ / "initdb"), "-D", str(data), "-A", "trust", "-U", "postgres"]
        subprocess.run(
            [*words, "-E", "UTF8", "--no-locale"], check=True, capture_output=True, cwd="/"
        )
        process = subprocess.Popen(
            [*own, str(bin_ / "postgres"), "-D", str(data), "-c", "listen_addresses=", "-c",
             f"unix_socket_directories={sockets}"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd="/",
        )  # fmt: skip
        try:
            ready = [str(bin_ / "pg_isready"), "-h", str(sockets), "-q"]
            while subprocess.run(ready, check=False).returncode:
                if process.poll() is not None:
                    raise OSError("the server has ended")
                time.sleep(0.1)
            yield f"postgresql://postgres@/postgres?host={sockets}"
        finally:
            process.send_signal(signal.SIGINT)
            process.wait()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        shutil.rmtree(sockets, ignore_errors=True)


def tell(limits: Limits, kind: str, url: str, trials: int, own: Path) -> None:
    print(f"\n{kind}: {trials:,} trials of {METRICS} metrics, {-(-trials // IN_RESULT):,} results")
    note(f"{kind}: pushing")
    seconds, most, added = measured(push_stream, url, trials)
    assert added == -(-trials // IN_RESULT), added
    limits.at_least("  trials a second, of the stream", trials / seconds, RATE, form=",.0f")
    limits.at_most("  memory of the push (MiB)", most, MEMORY, form=",.0f")
    for name in QUESTIONS:
        found = [measured(ask, url, name) for _ in range(TIMES)]
        rows = found[0][2]
        assert rows, name
        slowest = max(each[0] for each in found)
        limits.at_most(f"  {name} (s)", slowest, SECONDS, form=".2f", beside=f"{rows} rows")
        limits.at_most("    memory (MiB)", max(each[1] for each in found), MEMORY, form=",.0f")
    folders, count = folders_in(own, 40)
    seconds, _, most = measured(push_folders, url, folders)
    limits.at_least(
        f"  trials a second, of {len(folders)} results folders", count / seconds, FOLDERS,
        form=",.0f", beside=f"{count} trials",
    )  # fmt: skip
    limits.at_most("  memory of that (MiB)", most, MEMORY, form=",.0f")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=10_000_000)
    parser.add_argument("--quick", action="store_true", help="400,000 trials")
    parser.add_argument("--only", choices=("parquet", "postgresql"))
    parser.add_argument("--folder", type=Path, default=Path("/var/tmp"), help="a disk with 15 GB")  # noqa: S108
    asked, limits = parser.parse_args(), Limits()
    trials = 400_000 if asked.quick else asked.trials
    assert trials >= STUDIES * IN_RESULT, "each study has results"
    print(machine())
    top = Path(tempfile.mkdtemp(prefix="iotrial-bench-", dir=asked.folder))
    top.chmod(0o755)
    try:
        if asked.only != "postgresql":
            (top / "p").mkdir()
            tell(limits, "Parquet and DuckDB", f"file:{top}/store", trials, top / "p")
            size = sum(path.stat().st_size for path in (top / "store").rglob("*.parquet"))
            limits.tell("  bytes a trial on the disk", size / trials, form=".0f")
            shutil.rmtree(top / "store")
        if asked.only != "parquet":
            (top / "q").mkdir()
            with server(top) as url:
                tell(limits, "PostgreSQL", url, trials, top / "q")
    finally:
        shutil.rmtree(top, ignore_errors=True)
    return limits.status()


if __name__ == "__main__":
    run_main(main)

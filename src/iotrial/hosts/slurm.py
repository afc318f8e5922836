"""Slurm: which nodes there are, an allocation for as long as we live, and when a job ends.

An allocation is held by salloc(1), whose command reads a pipe of ours: when we end, killed or not,
the pipe ends, the command too, and salloc releases what it holds.  While it still waits for nodes
it has no command yet: a shell beside it reads the same pipe, and has it withdraw its request.  A
salloc that is told to end while its command ends may loop for ever (22.05: seen), so it is first
let alone, then told, then killed, and its job cancelled by name.

The end of a job is a lease: its nodes must have their settings back, and no load, before Slurm ends
what runs there.  So we ask for how long it lasts, now and then, for its limit can be changed, and
stop in time.

Sources: salloc(1), sinfo(1), squeue(1) and scontrol(1) of Slurm 22.05.
"""

from __future__ import annotations

import os
import re
import secrets
import selectors
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import NoReturn

from iotrial.errors import HostError, RefusedError, UsageError

JOB, NODES = "SLURM_JOB_ID", "SLURM_JOB_NODELIST"
OWN_NODES = f"${NODES}"
_FILTERS = {"partition": "--partition", "state": "--states", "nodes": "--nodes"}
_VALUE = re.compile(r"[A-Za-z0-9_+*][A-Za-z0-9_.,:+*\[\]-]*")
_LEFT = re.compile(r"(?:(?:(\d+)-)?(\d+):)?(\d+):(\d+)")
_PENDING = re.compile(rb"job (?:allocation )?(\d+)")
_WITHIN = 60.0
_HOLDER = """
exec 3<&0
name=$1
shift
salloc "$@" <&3 3<&- &
held=$!
{
    cat <&3
    sleep 1
    kill -s TERM "$held" || exit
    sleep 10
    kill -s KILL "$held" || exit
    scancel "--name=$name"
} >/dev/null 2>&1 &
watcher=$!
exec 3<&- <&-
wait "$held"
kill "$watcher" # its number may be another process's from now on
"""
_HELD = 'env -0; printf "\\0"; exec cat >/dev/null'
_SHOWN_EVERY = 15.0
_ENDS_WITHIN = 30.0
_INSTALL = "On Debian and Ubuntu: apt-get install slurm-client"

MARGIN = 60.0
"""Seconds before the end of a job at which a run stops: a trial is ended, and settings restored."""
_ASKED_EVERY = 300.0


def problem_of(said: str) -> str:
    """Why these words name no nodes, or ''."""
    if said == OWN_NODES:
        return ""
    words = said.split()
    filters = [word.partition("=") for word in words if "=" in word]
    if not words or (filters and len(filters) < len(words)) or (not filters and len(words) > 1):
        return f"{said!r} is neither a range of nodes nor what sinfo is to select by"
    for name, _, value in filters:
        if name not in _FILTERS or not _VALUE.fullmatch(value):
            return f"{name}={value} is not one of {'=…, '.join(_FILTERS)}=…"
    return "" if filters or _VALUE.fullmatch(said) else f"{said!r} is not a range of nodes"


def nodes(said: str) -> tuple[str, ...]:
    """The nodes that ``said`` names: ``$SLURM_JOB_NODELIST``, a range (``n[1-4]``), or what sinfo
    selects by ``partition=p state=idle``.

    Raises UsageError where there is no job, or no such node; HostError where Slurm does not answer.
    """
    if said == OWN_NODES and not os.environ.get(NODES):
        raise UsageError(
            f"{OWN_NODES} is not set: this is no job of Slurm",
            advice='Run it in an allocation (salloc, sbatch), or: iotrial run STUDY --slurm "…"',
        )
    listed = os.environ[NODES] if said == OWN_NODES else said
    if "=" in listed:
        chosen = [f"{_FILTERS[n]}={v}" for n, _, v in (w.partition("=") for w in listed.split())]
        found = _ask(["sinfo", "--noheader", "--Node", "--format=%N", *chosen])
    else:
        found = _ask(["scontrol", "show", "hostnames", listed])
    if not found.split():
        raise UsageError(f"Slurm has no node that is {listed}", advice="Compare: sinfo --Node")
    return tuple(dict.fromkeys(found.split()))


def configured(name: str) -> str:
    """A value of slurm.conf(5), or ''."""
    with suppress(HostError):
        for line in _ask(["scontrol", "show", "config"]).splitlines():
            key, _, value = line.partition("=")
            if key.strip() == name:
                return value.strip()
    return ""


def job_here() -> str:
    """The number of the job that this is a part of, or ''."""
    return os.environ.get(JOB, "")


def seconds_left(job: str) -> float | None:
    """Until the job must end; None: it may run for ever, or nobody knows."""
    with suppress(HostError):
        said = _ask(["squeue", "--noheader", f"--jobs={job}", "--format=%L"]).strip()
        if found := _LEFT.fullmatch(said):
            days, hours, minutes, seconds = (int(each or 0) for each in found.groups())
            return ((days * 24.0 + hours) * 60.0 + minutes) * 60.0 + seconds
    return None


@contextmanager
def before_the_end(job: str, stop: Callable[[str], None]) -> Iterator[None]:
    """Call ``stop``, with the reason, :data:`MARGIN` before the job ends, from another thread.

    Raises RefusedError where it ends sooner than that.
    """
    left = seconds_left(job)
    if left is not None and left <= MARGIN:
        raise RefusedError(
            f"job {job} ends in {left:.0f} s: too soon to measure and to restore",
            advice=f"Ask for more than {2 * MARGIN:.0f} s, for example --time=1:00:00.",
        )
    over = threading.Event()

    def watch(left: float | None) -> None:
        while True:
            until = _ASKED_EVERY if left is None else min(_ASKED_EVERY, max(left - MARGIN, 0.1))
            if over.wait(until):
                return
            left = seconds_left(job)
            if left is not None and left <= MARGIN:
                stop(f"job {job} ends in {left:.0f} s")
                return

    thread = threading.Thread(target=watch, args=(left,), name="end of the job", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()


@contextmanager
def allocation(words: Sequence[str], said: Callable[[str], None]) -> Iterator[str]:
    """Nodes of Slurm's while the context lives: the number of the job, which is in our environment
    then, as salloc(1) sets it.  ``words`` are salloc's; ``said`` is told what it waits for.

    Raises UsageError for what salloc refuses, HostError where it is not installed.
    """
    if job_here():
        raise UsageError(
            f"this is job {job_here()} of Slurm already",
            advice="Remove --slurm: its nodes are used.",
        )
    if shutil.which("salloc") is None:
        raise HostError("salloc is not installed on this host", advice=_INSTALL)
    name = f"iotrial-{secrets.token_hex(4)}"
    argv = ["sh", "-c", _HOLDER, "sh", name, *words, f"--job-name={name}"]
    pipe = subprocess.PIPE
    try:
        process = subprocess.Popen(
            [*argv, "sh", "-c", _HELD],
            stdin=pipe, stdout=pipe, stderr=pipe,
            start_new_session=True,  # Ctrl-C is for us: settings are restored before it is released
        )  # fmt: skip
    except FileNotFoundError as error:
        raise HostError(
            f"{error.filename} is not installed on this host", advice=_INSTALL
        ) from error
    waiting = _Waiting(process, said)
    former = dict(os.environ)
    try:
        variables = waiting.granted()
        os.environ.update(variables)
        job = variables[JOB]
        said(f"job {job}: {variables.get(NODES, 'no node')}")
        yield job
    finally:
        os.environ.clear()
        os.environ.update(former)
        waiting.end()


class _Waiting:
    """salloc, from its start to its end."""

    def __init__(self, process: subprocess.Popen[bytes], said: Callable[[str], None]) -> None:
        self._process = process
        self._said = said
        self._answers, self._complaints = b"", b""
        self._shown = ""

    def granted(self) -> dict[str, str]:
        """Wait until there are nodes; the variables of Slurm's that a job has."""
        out, errors = self._process.stdout, self._process.stderr
        assert out is not None  # noqa: S101 (asked for; for the type checker)
        assert errors is not None  # noqa: S101
        looks = time.monotonic() + 2.0
        with selectors.DefaultSelector() as selector:
            selector.register(out, selectors.EVENT_READ)
            selector.register(errors, selectors.EVENT_READ)
            while b"\0\0" not in self._answers:
                for key, _ in selector.select(1.0):
                    more = os.read(key.fd, 1 << 16)
                    if not more and key.fileobj is out:
                        self._refused()
                    if not more:
                        selector.unregister(errors)
                    elif key.fileobj is out:
                        self._answers += more
                    else:
                        self._complaints += more
                if time.monotonic() >= looks:
                    looks = time.monotonic() + _SHOWN_EVERY
                    self._show()
        entries = self._answers.split(b"\0\0")[0].split(b"\0")
        pairs = (os.fsdecode(entry).partition("=") for entry in entries)
        return {name: value for name, _, value in pairs if name.startswith("SLURM_")}

    def _show(self) -> None:
        """What it waits for, where that is new."""
        found = _PENDING.search(self._complaints)
        if not found:
            return
        job = found[1].decode()
        with suppress(HostError):
            state = _ask(["squeue", "--noheader", f"--jobs={job}", "--format=%T, %r"]).strip()
            line = f"waiting for job {job}: {state}"
            if state and line != self._shown:
                self._shown = line
                self._said(line)

    def _refused(self) -> NoReturn:
        self._process.wait(_ENDS_WITHIN)
        if self._process.stderr is not None:
            self._complaints += self._process.stderr.read()
        text = self._complaints.decode("utf-8", "replace").strip()
        why = (
            text.splitlines()[-1].removeprefix("salloc: ").removeprefix("error: ")
            if text
            else "no message"
        )
        raise UsageError(f"salloc: {why}", advice="Try manually: salloc … true; sinfo shows nodes.")

    def end(self) -> None:
        """Release the nodes."""
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()
        try:
            self._process.wait(_ENDS_WITHIN)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def _ask(argv: Sequence[str]) -> str:
    """What one of Slurm's programs says.  Raises HostError."""
    try:
        done = subprocess.run(
            argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=_WITHIN, check=False
        )
    except FileNotFoundError as error:
        raise HostError(f"{argv[0]} is not installed on this host", advice=_INSTALL) from error
    except subprocess.TimeoutExpired as error:
        raise HostError(f"{argv[0]} did not answer within {_WITHIN:.0f} s") from error
    if done.returncode:
        said = done.stderr.decode("utf-8", "replace").strip().splitlines()
        words = said[-1].rpartition("error: ")[2] if said else f"exit {done.returncode}"
        raise HostError(f"{argv[0]}: {words}")
    return done.stdout.decode("utf-8", "replace")

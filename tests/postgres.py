"""A PostgreSQL server of the tests' own."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg


def programs() -> Path | None:
    """The folder of PostgreSQL's programs; None where it is not installed."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    if found:
        return found[-1].parent
    there = shutil.which("initdb")
    return Path(there).parent if there else None


@contextmanager
def started(where: Path) -> Iterator[str]:
    """The address of a server of our own, without a database's name; ``where`` are its programs."""
    # Its sockets' paths may have 107 characters.
    folder = Path(
        subprocess.check_output(["mktemp", "-d", "/tmp/iotrial-pg-XXXXXX"], text=True)[:-1]
    )
    own: list[str] = []
    if os.geteuid() == 0:  # it refuses to be root
        shutil.chown(folder, "postgres")
        own = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"]
    data = folder / "data"
    start = [*own, str(where / "initdb"), "-D", str(data), "-A", "trust", "-U", "postgres"]
    subprocess.run([*start, "-E", "UTF8", "--no-locale"], check=True, capture_output=True, cwd="/")
    process = subprocess.Popen(
        [*own, str(where / "postgres"), "-D", str(data), "-c", "listen_addresses=",
         "-c", f"unix_socket_directories={folder}", "-c", "fsync=off"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd="/",
    )  # fmt: skip
    try:
        ready = [str(where / "pg_isready"), "-h", str(folder), "-q"]
        while subprocess.run(ready, check=False).returncode:
            assert process.poll() is None, "the server has ended"
            time.sleep(0.1)
        yield f"postgresql://postgres@/%s?host={folder}"
    finally:
        process.send_signal(signal.SIGINT)
        process.wait()
        shutil.rmtree(folder)


def database(server: str) -> str:
    """The address of a new database."""
    name = f"of_{random.randrange(2**60):x}"
    with psycopg.connect(server % "postgres", autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")  # type: ignore[arg-type]
    return server % name

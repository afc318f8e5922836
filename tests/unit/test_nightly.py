"""The service and the timer of ``examples/nightly``: systemd reads them, and they name what is."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from iotrial.cli.main import VERBS
from iotrial.errors import LockedError

FOLDER = Path(__file__).resolve().parents[2] / "examples/nightly"
SERVICE = (FOLDER / "iotrial-study@.service").read_text("utf-8")


def verified(folder: Path, service: str) -> subprocess.CompletedProcess[str]:
    """What systemd says of the two as instances.  It wants every program to be there."""
    program = shutil.which("true") or "/bin/true"
    text = re.sub(r"(?m)^(Exec\w+=-?)iotrial ", rf"\1{program} ", service)
    (folder / "iotrial-study@.service").write_text(text)
    shutil.copy(FOLDER / "iotrial-study@.timer", folder)
    for kind in ("service", "timer"):
        shutil.copy(folder / f"iotrial-study@.{kind}", folder / f"iotrial-study@disks.{kind}")
    return subprocess.run(
        ["systemd-analyze", "verify", "--man=no", folder / "iotrial-study@disks.timer"],
        env={"SYSTEMD_UNIT_PATH": f"{folder}:", "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def test_systemd_takes_the_service_and_the_timer(tmp_path: Path) -> None:
    if not shutil.which("systemd-analyze"):
        pytest.skip("systemd-analyze is not installed")
    done = verified(tmp_path, SERVICE)
    assert done.returncode == 0, done.stderr
    assert "iotrial-study" not in done.stderr
    assert "iotrial-study" in verified(tmp_path, SERVICE.replace("=exec", "=oneshot")).stderr


def test_the_service_names_verbs_and_the_code_of_a_locked_machine() -> None:
    assert set(re.findall(r"(?m)^Exec\w+=-?iotrial (\w+)", SERVICE)) == {"run", "restore"} & {
        *VERBS
    }
    assert f"\nRestartForceExitStatus={LockedError.exit_code}\n" in SERVICE

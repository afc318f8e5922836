"""How long tuned takes to switch a profile, in namespaces of its own: for ``settings.py``.

    unshare --mount --pid --fork --kill-child --mount-proc python benchmarks/_tuned.py SETTINGS

SETTINGS is a JSON file of ``{path: [former, wanted]}``.  tuned gets its own /run, its own
configuration and a D-Bus of its own; where it is not installed, it is installed by apt into an
overlay in memory, and gone with it.  The kernel's parameters are the machine's: whoever starts
this looks at them before and after.  Prints JSON: seconds of each switch, by ``tuned-adm profile``
and by its D-Bus call alone.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROUNDS = 7
READY_WITHIN = 30.0
OFF, ON = "bench-off", "bench-on"
BUS = """<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-BUS Bus Configuration 1.0//EN"
 "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig><type>system</type><listen>unix:path=/run/dbus/system_bus_socket</listen>
<auth>EXTERNAL</auth><policy context="default"><allow user="*"/><allow own="*"/>
<allow send_type="method_call"/><allow send_type="signal"/><allow send_destination="*"/>
<allow receive_sender="*"/></policy></busconfig>
"""
CALL = ("dbus-send", "--system", "--print-reply", "--dest=com.redhat.tuned", "/Tuned")
OUTPUT = Path("/run/bench-output")


def _do(*argv: str, within: float = 300.0) -> None:
    done = subprocess.run(argv, capture_output=True, text=True, timeout=within, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(argv)}: {(done.stderr or done.stdout).strip()[-800:]}")


def private_folders() -> None:
    """/run anew, /etc and /var (and /usr, where tuned is missing) under an overlay in memory."""
    _do("mount", "--make-rprivate", "/")
    _do("mount", "-t", "tmpfs", "tmpfs", "/run")
    folders = ["/etc", "/var"]
    missing = not all(map(shutil.which, ("tuned", "tuned-adm", "dbus-daemon", "dbus-send")))
    for folder in [*folders, "/usr"] if missing else folders:
        upper, work = Path("/run/over", folder[1:], "upper"), Path("/run/over", folder[1:], "work")
        for each in (upper, work):
            each.mkdir(parents=True)
        options = f"lowerdir={folder},upperdir={upper},workdir={work}"
        _do("mount", "-t", "overlay", "overlay", "-o", options, folder)
    if missing:
        _install()


def _install() -> None:
    policy = Path("/usr/sbin/policy-rc.d")
    policy.write_text("#!/bin/sh\nexit 101\n")
    policy.chmod(0o755)
    # As root within: the sandbox user of apt finds no way through the overlay.
    apt = ("env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-qq", "-y",
           "-o", "APT::Sandbox::User=root")  # fmt: skip
    _do(*apt, "update")
    _do(*apt, "install", "--no-install-recommends", "tuned", "dbus")


def profiles(settings: dict[str, list[str]]) -> None:
    """One profile that sets nothing, and one with every setting: sysctls by tuned's plugin for
    them, files of a queue by its plugin sysfs."""
    keys = {path: value for path, (_, value) in settings.items() if path.startswith("/proc/sys/")}
    files = {path: value for path, (_, value) in settings.items() if path not in keys}
    lines = ["[main]", "summary=settings", "[sysctl]"]
    lines += [
        f"{path.removeprefix('/proc/sys/').replace('/', '.')}={value}"
        for path, value in keys.items()
    ]
    lines += ["[sysfs]", *(f"{path}={value}" for path, value in files.items())]
    for name, text in ((ON, "\n".join(lines)), (OFF, "[main]\nsummary=nothing")):
        folder = Path("/etc/tuned", name)
        folder.mkdir(parents=True)
        (folder / "tuned.conf").write_text(text + "\n")
    # No sysctl.d of this machine is to be applied by us: tuned would do that after its own.
    main = Path("/etc/tuned/tuned-main.conf")
    main.write_text(main.read_text().replace("reapply_sysctl = 1", "reapply_sysctl = 0"))
    Path("/etc/tuned/active_profile").write_text(f"{OFF}\n")
    Path("/etc/tuned/profile_mode").write_text("manual\n")


def start() -> list[subprocess.Popen[bytes]]:
    """A bus and a tuned, which is waited for."""
    for folder in ("/run/dbus", "/run/tuned"):
        Path(folder).mkdir(exist_ok=True)
    Path("/run/bus.conf").write_text(BUS)
    output = OUTPUT.open("wb")
    bus = ("dbus-daemon", "--config-file=/run/bus.conf", "--nofork", "--nopidfile", "--nosyslog")
    started = [subprocess.Popen(bus, stdout=output, stderr=output)]
    while not Path("/run/dbus/system_bus_socket").exists():
        time.sleep(0.05)
    started.append(
        subprocess.Popen(("tuned", "--log", "/run/tuned.log"), stdout=output, stderr=output)
    )
    ends = time.monotonic() + READY_WITHIN
    while OFF not in _said(*CALL, "com.redhat.tuned.control.active_profile"):
        if time.monotonic() > ends:
            raise SystemExit(f"tuned does not answer: {OUTPUT.read_text()[-800:]}")
        time.sleep(0.2)
    return started


def _said(*argv: str) -> str:
    return subprocess.run(argv, capture_output=True, text=True, timeout=30, check=False).stdout


def switch(settings: dict[str, list[str]], on: bool, argv: tuple[str, ...]) -> float:  # noqa: FBT001
    """Seconds of one switch, until every value is what the profile says: the D-Bus call comes
    back before that, since tuned applies in a thread of its own."""
    began = time.perf_counter()
    _do(*argv, within=60)
    while left := _differing(settings, on):
        if time.perf_counter() - began > READY_WITHIN:
            raise SystemExit(f"tuned does not set {', '.join(left)}")
    return time.perf_counter() - began


def _differing(settings: dict[str, list[str]], on: bool) -> list[str]:  # noqa: FBT001
    now = ((path, " ".join(Path(path).read_text().split())) for path in settings)
    return [path for path, value in now if value != settings[path][on]]


def main() -> None:
    settings = json.loads(Path(sys.argv[1]).read_text())
    private_folders()
    profiles(settings)
    started = start()
    found: dict[str, list[float]] = {"tuned-adm": [], "d-bus": []}
    call = (*CALL, "com.redhat.tuned.control.switch_profile")
    try:
        for _ in range(ROUNDS):
            for name in (ON, OFF):
                adm = ("tuned-adm", "profile", name)
                found["tuned-adm"].append(switch(settings, name == ON, adm))
        for _ in range(ROUNDS):
            for name in (ON, OFF):
                found["d-bus"].append(switch(settings, name == ON, (*call, f"string:{name}")))
    finally:
        for process in reversed(started):
            process.terminate()
            process.wait(timeout=20)
    print(json.dumps(found))


if __name__ == "__main__":
    if os.getpid() != 1:
        raise SystemExit("only in namespaces of its own: ./dev bench settings starts it")
    main()

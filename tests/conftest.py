"""What every test may ask for: root, a browser, a loop device of its own, a private state folder.

Keep this file small: it is read by every test.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import gc
import os
import random
import re
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

import absent
from iotrial import extras
from iotrial.report import charts

pytest_plugins = ["lab", "nodes"]
pytest.register_assert_rewrite("deaths")  # says what stayed changed, as in a test file

# A machine that is busy draws slowly; that says nothing of the code.
# What is drawn is the same each time: a test that fails, fails for everybody, until it is mended.
# IOTRIAL_EXPLORE=1 draws anew, to find more.
BUSY = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("busy", **BUSY, derandomize=True)
settings.register_profile("explore", **BUSY)
settings.load_profile("explore" if os.environ.get("IOTRIAL_EXPLORE") else "busy")

SOURCE = Path(__file__).resolve().parents[1] / "src"
LOOP_CONTROL = Path("/dev/loop-control")
LOOP_CTL_REMOVE = 0x4C81  # <linux/loop.h>
LOOP_SIZE = 64 * 2**20
BROWSERS = ("chromium", "chromium-browser", "google-chrome")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--all", action="store_true", help="as often and as long as ever: `./dev test --all`"
    )
    parser.addoption(
        "--going-on", metavar="FILE", help="leave out the tests in FILE; add those that pass to it"
    )
    parser.addoption(
        "--without-wings", action="store_true", help="the core alone, as if no wing was installed"
    )


def _own_mounts() -> None:
    """What a test mounts, no other worker's test sees, nor any container that begins meanwhile:
    a copy there would keep a file system alive that is unmounted here.  With the last process
    goes what is still mounted."""
    libc = ctypes.CDLL(None, use_errno=True)
    new_mounts, private = 0x00020000, 0x00044000  # CLONE_NEWNS; MS_REC and MS_PRIVATE
    if os.geteuid() == 0 and libc.unshare(new_mounts) == 0:
        libc.mount(b"none", b"/", None, private, None)


def pytest_configure(config: pytest.Config) -> None:
    _own_mounts()
    os.environ["IOTRIAL_PLUGINS"] = ""  # whoever runs the tests may have plugins
    if config.getoption("--without-wings"):
        config.pluginmanager.register(WithoutWings(), "without-wings")
    if path := config.getoption("--going-on"):
        config.pluginmanager.register(GoingOn(Path(path)), "going-on")


class WithoutWings:
    """No wing can be imported, and tests about one are left out: the core works by itself."""

    names = tuple(path.name for path in SOURCE.glob("iotrial_*"))

    def __init__(self) -> None:
        for name in [name for name in sys.modules if name.startswith("iotrial_")]:
            del sys.modules[name]
        sys.meta_path.insert(0, self)  # type: ignore[arg-type]

    def find_spec(self, name: str, *_: object) -> None:
        root = name.partition(".")[0]
        if root in self.names:
            raise ModuleNotFoundError(f"No module named {root!r}", name=root)

    def pytest_ignore_collect(self, collection_path: Path) -> bool | None:
        """A file that names a wing is that wing's test."""
        if not collection_path.name.startswith("test_"):
            return None
        text = collection_path.read_text("utf-8")
        return True if any(name in text for name in self.names) else None

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        _leave_out(config, items, _those(config, items, OF_WINGS))


class GoingOn:
    """What was cut off goes on where it stopped: FILE holds what has passed so far."""

    def __init__(self, file: Path) -> None:
        self.file = file

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        passed = set(self.file.read_text("utf-8").splitlines()) if self.file.exists() else set()
        _leave_out(config, items, [item for item in items if item.nodeid in passed])

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" and report.passed and not os.environ.get("PYTEST_XDIST_WORKER"):
            with self.file.open("a", encoding="utf-8") as file:
                file.write(f"{report.nodeid}\n")


def _leave_out(config: pytest.Config, items: list[pytest.Item], some: list[pytest.Item]) -> None:
    if some:
        gone = set(map(id, some))
        items[:] = [item for item in items if id(item) not in gone]
        config.hook.pytest_deselected(items=some)


LONG = Path(__file__).parent / "long.txt"
OF_WINGS = Path(__file__).parent / "wings.txt"


_SHARE = re.compile(r"1/(\d+) ")
"""Before a name in long.txt: of its cases every so many-th is run each time."""


def share(line: str) -> tuple[int, str]:
    """Of a line of long.txt: every how many-th case is run each time (0: none), and the name."""
    found = _SHARE.match(line)
    return (int(found[1]), line[found.end() :]) if found else (0, line)


def listed(file: Path = LONG) -> list[str]:
    """What the names of tests begin with that a file names."""
    lines = file.read_text("utf-8").splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def _those(config: pytest.Config, items: list[pytest.Item], file: Path) -> list[pytest.Item]:
    """The tests that a file names.  Raises UsageError for a line that names none."""
    names = listed(file)
    by_file: dict[str, list[str]] = {}
    for each in names:
        by_file.setdefault(share(each)[1].partition("::")[0], []).append(each)
    here = {item.nodeid.partition("::")[0] for item in items}
    unused = {each for path in here for each in by_file.get(path, ())}
    some, met = [], Counter[str]()
    for item in items:
        for each in by_file.get(item.nodeid.partition("::")[0], ()):
            every, name = share(each)
            begins = name if "[" in name else (f"{name}[", f"{name}::")
            if item.nodeid == name or item.nodeid.startswith(begins):
                if not every or met[each] % every:
                    some.append(item)
                met[each] += 1
                unused.discard(each)
                break
    if unused and not any(config.getoption(name, None) for name in ("keyword", "markexpr")):
        raise pytest.UsageError(f"{file}: no test begins with {sorted(unused)}")
    return some


def _without_long(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is long, but for a test that was asked for by its very name."""
    if config.getoption("--all") or any("::" in argument for argument in config.args):
        return
    _leave_out(config, items, _those(config, items, LONG))


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Python looks for rings among all objects there are: not among a hundred thousand tests'."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)  # as iotrial itself (cli/main.py)


@pytest.fixture(scope="module", autouse=True)
def _no_real_fsync(request: pytest.FixtureRequest) -> Iterator[None]:
    """No test cuts the power; on a busy disk to wait for it takes longer than the tests.  Those
    that act on a machine do wait, and so does every process that a test starts."""
    with pytest.MonkeyPatch.context() as patch:
        if not {"integration", "vm"} & set(request.path.parts):
            patch.setattr(os, "fsync", os.fstat)  # which refuses what is not open, too
        yield


@pytest.fixture(scope="module", autouse=True)
def _charts_where_they_are_looked_at(request: pytest.FixtureRequest) -> Iterator[None]:
    """A page takes longer to draw than a pretended study to run.  Without ``--all`` tests that are
    not marked ``charts`` have text in place of them, as an install without that extra; so have the
    processes that they start."""
    with pytest.MonkeyPatch.context() as patch:
        if not (request.config.getoption("--all") or request.node.get_closest_marker("charts")):
            patch.setattr(charts, "missing", lambda _extra: ("vl-convert-python",))
            for name, value in absent.without("vl_convert").items():
                patch.setenv(name, value)
        yield


@pytest.fixture(autouse=True)
def _charts_in_this_test(request: pytest.FixtureRequest) -> Iterator[None]:
    """For a single test that is marked so, in a module that is not."""
    with pytest.MonkeyPatch.context() as patch:
        if request.node.get_closest_marker("charts"):
            patch.setattr(charts, "missing", extras.missing)
            patch.setenv(absent.NAMES, "")
        yield


def _fewer_examples(config: pytest.Config, items: list[pytest.Item]) -> None:
    """A third of what hypothesis tries with ``--all``."""
    if config.getoption("--all"):
        return
    tests = {item.obj for item in items if isinstance(item, pytest.Function)}
    given = [test for test in tests if hasattr(test, "hypothesis")]
    for test in given:
        asked = test._hypothesis_internal_use_settings  # there is no public name for it
        fewer = -(-asked.max_examples // 3)
        test._hypothesis_internal_use_settings = settings(asked, max_examples=fewer)


@pytest.fixture
def times(request: pytest.FixtureRequest) -> Callable[[int], int]:
    """How often something is done that with ``--all`` is done so often: a third as often without,
    so that all tests fit in an hour."""
    return lambda most: most if request.config.getoption("--all") else -(-most // 3)


def _why_not_root() -> str:
    if os.geteuid() != 0:
        return "needs root: loop devices and the kernel's own settings are acted on"
    if not LOOP_CONTROL.exists():
        return f"needs {LOOP_CONTROL}: this kernel or container offers no loop devices"
    return ""


def _why_no_browser() -> str:
    if not any(map(shutil.which, BROWSERS)):
        return f"needs a browser, one of: {', '.join(BROWSERS)}"
    return ""


def _why_no_vm(item: pytest.Item) -> str:
    if item.get_closest_marker("vm") is None:
        return ""
    if not item.config.getoption("--all"):
        return "boots virtual machines, for minutes: ./dev test --all"
    from nodes import why_not  # noqa: PLC0415 (a plugin: pytest imports it first)

    return why_not()


_LONGEST = {
    name: place
    for place, name in enumerate(
        (
            "test_never_the_wrong_disk",
            "test_fio_names",
            "test_upkeep_on_a_loop",
            "test_wrong_ideas",
            "test_race_on_a_loop",
            "test_opened_by_loads",
            "test_leaving_in_a_directory",
            "test_validity_on_a_loop",
            "test_check_on_a_loop",
            "test_keep_here",
            "test_blocks_over_hosts",
            "test_report_in_a_browser",
        )
    )
}
"""The files that take longest, first: everybody waits for the worker that begins one at the end."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """A test that cannot be done here is skipped with the reason, never silently passed."""
    _without_long(config, items)
    _fewer_examples(config, items)
    items.sort(key=lambda item: _LONGEST.get(item.path.stem, len(_LONGEST)))
    reasons = {"root": _why_not_root(), "browser": _why_no_browser()}
    for item in items:
        for mark, reason in (*reasons.items(), ("vm", _why_no_vm(item))):
            if reason and item.get_closest_marker(mark):
                item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of the test's own for lock and journal, in the place of /run and /var/lib.

    The environment names it, so a process that the test starts uses it too.
    """
    folder = tmp_path / "state"
    folder.mkdir(mode=0o700)
    monkeypatch.setenv("IOTRIAL_STATE", str(folder))
    return folder


@pytest.fixture
def own_swappiness() -> Iterator[None]:
    """For a test that sets ``vm.swappiness``, or asserts that it stays: the whole kernel has one,
    so that one test after another has it."""
    with Path("/proc/sys/vm/swappiness").open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@pytest.fixture
def browser() -> str:
    """The path of a headless-capable browser.  Use together with the mark ``browser``."""
    return next(path for path in map(shutil.which, BROWSERS) if path)


def new_loop() -> int:
    """The number of a loop device that does not exist yet."""
    taken = {path.name for path in Path("/sys/block").glob("loop*")}
    return next(n for n in iter(lambda: random.randint(1000, 99999), 0) if f"loop{n}" not in taken)


def remove_loop(number: int) -> None:
    """Detach a loop device and give its number back to the kernel.

    Raises an OSError (EBUSY) where something still uses it after 10 s: of two fixtures, a test asks
    for the device first, so that what uses it ends before it.
    """
    subprocess.run(["losetup", "--detach", f"/dev/loop{number}"], check=False, timeout=30)
    deadline = time.monotonic() + 10
    with LOOP_CONTROL.open("rb") as control:
        while True:
            try:
                fcntl.ioctl(control, LOOP_CTL_REMOVE, number)
            except OSError as error:
                if error.errno == errno.ENODEV:  # removed by the test itself
                    return
                if error.errno != errno.EBUSY or time.monotonic() > deadline:
                    raise
                time.sleep(0.05)  # detached only when the last program has closed it
            else:
                return


@pytest.fixture
def loop_device(tmp_path: Path) -> Iterator[str]:
    """The kernel name (``loop4711``) of a new 64 MiB loop device with direct I/O.

    The number is new, because attaching to an existing one changes queue limits that detaching
    does not give back.  The device and its number are removed afterwards.
    """
    number = new_loop()
    backing = tmp_path / "loop.img"
    backing.write_bytes(b"")
    os.truncate(backing, LOOP_SIZE)
    attach = ["losetup", "--direct-io=on", f"/dev/loop{number}", str(backing)]
    try:
        subprocess.run(attach, check=True, timeout=30, capture_output=True)
        yield f"loop{number}"
    finally:
        remove_loop(number)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """How many deaths were enumerated (tests/crash), and after how many the restore died too."""
    found = {"deaths": 0, "dying restores": 0}
    for report in terminalreporter.stats.get("", []):
        for name, number in report.user_properties if report.when == "teardown" else ():
            found[name] = found.get(name, 0) + number
    if found["deaths"]:
        terminalreporter.write_line(", ".join(f"{each:,} {what}" for what, each in found.items()))

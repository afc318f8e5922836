"""The live page where it is looked at: a browser, fed with what a trial recorded."""

from __future__ import annotations

import fcntl
import itertools
import json
import os
import struct
import subprocess
import sys
import termios
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

import factories
from browsing import Browser, Tab
from iotrial.live import address, picture
from iotrial.live.live import LiveStatus
from iotrial.live.picture import SHORTEST
from iotrial.model.event import (
    CountersSampled,
    Message,
    PersonAsked,
    ResultsUpdated,
    SettingsInForce,
    TrialBegan,
    TrialEnded,
    TrialsPlanned,
)
from iotrial.model.results import TelemetrySample
from iotrial.model.tunable import Setting
from iotrial.stats.judge import judge

pytestmark = pytest.mark.browser

RESULTS = factories.results()
RECORDS = RESULTS.records
SHIFT = "window.shifts.reduce((all, each) => all + each, 0)"
OUTSIDE = """
[...document.querySelectorAll("body *")]
  .filter((box) => box.getBoundingClientRect().right > innerWidth && !box.closest(".scroll *"))
  .map((box) => `${box.tagName}#${box.id} ${box.textContent.slice(0, 40)}`).join("; ")
"""
OBSERVE = """
window.shifts = [];
new PerformanceObserver((list) => {
  for (const entry of list.getEntries()) if (!entry.hadRecentInput) window.shifts.push(entry.value);
}).observe({ type: "layout-shift", buffered: true });
"""


def telemetry(seconds: int) -> list[dict[str, Any]]:
    """Lines as a trial stores them: reads that differ from second to second."""
    rows, disk = [], dict.fromkeys(("reads", "sectors_read", "read_ms", "io_ms"), 0)
    for t in range(seconds):
        rows.append(
            {
                "t": float(t),
                "cpu": {"user": 30 * t, "system": 10 * t, "idle": 60 * t},
                "pressure": {"io": {"some": 250_000 * t, "full": 0}},
                "disk": {**disk, "writes": 0, "sectors_written": 0, "write_ms": 0, "in_flight": 32},
            }
        )
        done = 20_000 + 977 * (t * t % 7)
        disk = {
            "reads": disk["reads"] + done,
            "sectors_read": disk["sectors_read"] + 8 * done,
            "read_ms": disk["read_ms"] + done // 2,
            "io_ms": disk["io_ms"] + 950,
        }
    return rows


@pytest.fixture
def live(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LiveStatus]:
    monkeypatch.setattr(picture, "STALE", 600.0)  # however long a browser takes to start
    with LiveStatus(RESULTS.study, address.parse(address.FREE)) as found:
        found(TrialsPlanned(63, 63, tmp_path))
        found(ResultsUpdated(RESULTS))
        found(TrialBegan(RECORDS[0].trial, 30.0))
        found(SettingsInForce("local", [Setting("sda", "queue.scheduler", "bfq")]))
        yield found


def replay(live: LiveStatus, rows: list[dict[str, Any]], host: str = "local") -> None:
    """Say it as the sampler does, but faster."""
    for values in rows:
        live(CountersSampled(TelemetrySample(host, "disk", "sda", values)))


def url(live: LiveStatus) -> str:
    assert live.place
    return live.place.url


def opened(browser: Browser, live: LiveStatus, width: int = 1280) -> Tab:
    tab = browser.tab(width)
    tab.call("Page.addScriptToEvaluateOnNewDocument", {"source": OBSERVE})
    tab.go(url(live))
    tab.until("now !== null")
    return tab


IOPS = "document.querySelector('#iops b').textContent"
LATENCY = "document.querySelector('#lat b').textContent"


def test_numbers_move_and_are_those_of_the_recorded_trial(
    live: LiveStatus, browser: str, tmp_path: Path
) -> None:
    rows = telemetry(12)
    with Browser(browser, tmp_path / "profile") as first:
        tab = opened(first, live)
        shown = []
        for at, values in enumerate(rows):
            replay(live, [values])
            if at:
                tab.until(f"points.length >= {at}")
                shown.append((tab.see("points.at(-1)[1]"), tab.see(IOPS), tab.see(LATENCY)))
        recorded = [
            float(b["disk"]["reads"] - a["disk"]["reads"]) for a, b in itertools.pairwise(rows)
        ]
        assert [each for each, _, _ in shown] == recorded
        assert len({text for _, text, _ in shown}) > 3
        assert shown[0][1:] == ("20.0 k", "500 µs")
        assert tab.see("document.querySelector('#cpu b').textContent") == "40 %"
        assert tab.see("document.querySelector('#rows tbody').rows.length") == 1
        assert "queue.scheduler" in tab.see("document.querySelector('#settings').textContent")
        assert tab.complaints() == []
        assert {urlsplit(each).path for each in tab.requests() if each.startswith("http")} == {
            "/", "/stream",
        }  # fmt: skip


def over_two_paths(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The same of a map of two paths: three quarters of it went through the first."""
    found = []
    for row in rows:
        first = {name: count * 3 // 4 for name, count in row["disk"].items()}
        second = {name: count - first[name] for name, count in row["disk"].items()}
        found.append({**row, "paths": {"sdb": first, "sdc": second}})
    return found


CELLS = """
[...document.querySelectorAll('#rows tbody tr')].map(
  (row) => [row.className, ...[...row.cells].map((cell) => cell.textContent)])
"""


def test_each_path_has_a_row_below_its_device_that_moves_as_the_trial_stored_it(
    live: LiveStatus, browser: str, tmp_path: Path
) -> None:
    stored = tmp_path / "telemetry.jsonl"
    stored.write_text("".join(f"{json.dumps(row)}\n" for row in over_two_paths(telemetry(8))))
    rows = [json.loads(line) for line in stored.read_text().splitlines()]
    seen, said = [], []
    with Browser(browser, tmp_path / "profile") as first:
        tab = opened(first, live)
        for at, values in enumerate(rows):
            replay(live, [values])
            if at:
                tab.until(f"points.length >= {at}")
                seen.append(tab.see("now.paths.map((each) => each.rates['read.iops'])"))
                said.append(tab.see(CELLS))
        live(TrialEnded(RECORDS[0]))
        live(TrialBegan(RECORDS[1].trial, 3.0))
        tab.until("now.trials.length === 1 && !now.paths[0].rates.share")
        between = tab.see(CELLS)
    assert seen == [
        [float(b["paths"][name]["reads"] - a["paths"][name]["reads"]) for name in ("sdb", "sdc")]
        for a, b in itertools.pairwise(rows)
    ]
    # What is read on the page: below the device, its paths, with their share of it.
    assert [line[3] for line in said[0]] == ["sda", "└ sdb", "└ sdc"]
    assert [line[4] for line in said[0][1:]] == ["75 % of it", "25 % of it"]
    assert [line[5] for line in said[0]] == ["20.0 k", "15.0 k", "5.00 k"]
    assert [line[9] for line in said[0]] == ["500 µs"] * 3
    assert len({line[1][5] for line in said}) > 3
    assert [line[1:] for line in between[1:]] == [line[1:] for line in said[-1][1:]]
    assert {line[0] for line in between} == {"old"}


def test_a_second_browser_sees_the_same_and_a_reload_loses_nothing(
    live: LiveStatus, browser: str, tmp_path: Path
) -> None:
    with Browser(browser, tmp_path / "a") as one, Browser(browser, tmp_path / "b") as other:
        tab = opened(one, live)
        for at, values in enumerate(telemetry(5)):
            replay(live, [values])
            tab.until(f"points.length >= {at}")
        late = opened(other, live)
        late.until("points.length >= 4")
        tab.reload()
        tab.until("now !== null && points.length >= 4")
        assert tab.see("points") == late.see("points")
        assert tab.see(IOPS) == late.see(IOPS)
        assert tab.see("sparks.get('local disk sda').length") == 4


def test_a_wrong_token_sees_nothing(live: LiveStatus, browser: str, tmp_path: Path) -> None:
    with Browser(browser, tmp_path / "profile") as found:
        tab = found.tab()
        tab.go(url(live)[:-1])
        assert tab.see("document.body.textContent").startswith("403")
        assert tab.see("typeof now") == "undefined"


def test_nothing_jumps_while_numbers_come_and_trials_change(
    live: LiveStatus, browser: str, tmp_path: Path
) -> None:
    with Browser(browser, tmp_path / "profile") as found:
        tab = opened(found, live)
        replay(live, telemetry(2))
        tab.until("points.length >= 1")
        tab.see("window.shifts.length = 0")
        for record in RECORDS[:4]:
            live(TrialEnded(record))
            live(TrialBegan(record.trial, 3.0))
            live(SettingsInForce("local", [Setting("sda", "queue.scheduler", "none")]))
            replay(live, telemetry(3))
            tab.until(f"now.trials[0].number === {record.trial.number} && now.total['read.iops']")
        assert tab.see(SHIFT) < 0.01


@pytest.mark.parametrize("width", [1280, 800, 360])
def test_it_fits_its_window_in_light_and_dark(
    live: LiveStatus, browser: str, tmp_path: Path, width: int
) -> None:
    with Browser(browser, tmp_path / "profile") as found:
        tab = opened(found, live, width)
        for host in ("box-with-a-long-name-1", "box-with-a-long-name-2"):
            replay(live, telemetry(3), host)
        live(TrialEnded(next(record for record in RECORDS if record.state == "invalid")))
        tab.until("now.rows.length === 2 && now.trials.length === 1")
        assert tab.see("document.documentElement.scrollWidth") <= width, tab.see(OUTSIDE)
        assert tab.see("document.querySelectorAll('#intervals svg.range').length") == len(
            [each for each in judge(RESULTS).findings if each.primary]
        )
        ink = "getComputedStyle(document.body).color"
        light = tab.see(ink)
        tab.dark()
        assert tab.see(ink) != light


def test_names_are_text_whatever_they_hold(live: LiveStatus, browser: str, tmp_path: Path) -> None:
    evil = "<img src=x onerror='window.hit=1'><script>window.hit=1</script>"
    with Browser(browser, tmp_path / "profile") as found:
        tab = opened(found, live)
        replay(live, telemetry(3), evil)
        live(Message(evil))
        live(PersonAsked(evil))
        tab.until("now.rows.length === 1 && now.words.length === 1 && now.asked")
        assert tab.see("window.hit") is None
        assert tab.see("document.images.length") == 0
        assert tab.see("document.querySelector('#rows tbody td').textContent") == evil


def test_the_page_says_when_the_run_is_over_or_out_of_reach(tmp_path: Path, browser: str) -> None:
    with Browser(browser, tmp_path / "profile") as found:
        with LiveStatus(RESULTS.study, address.parse(address.FREE)) as live:
            live(TrialsPlanned(1, 1, tmp_path))
            tab = opened(found, live)
            live.ends(0)
        state = "document.getElementById('state').textContent"
        tab.until(f"{state} === 'finished'")
        assert tab.see("stream.readyState") == 2


STUDY = """
question = "Which scheduler?"
[targets.disk]
loop = {{ size = "64MiB", directory = "{folder}" }}
[workloads.reads]
tool = "fio"
[workloads.reads.options]
rw = "randread"
bs = "4k"
iodepth = 8
runtime = "5s"
time_based = 1
[factors.scheduler]
tunable = "queue.scheduler"
levels = ["none", "mq-deadline"]
[design]
blocks = 1
settle = "0s"
"""


def on_a_terminal(folder: Path) -> tuple[subprocess.Popen[bytes], list[bytes], threading.Thread]:
    """``status --follow`` in a window of 160 by 40, and what it writes there."""
    ours, theirs = os.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("4H", 40, 160, 0, 0))
    follower = subprocess.Popen(
        [sys.executable, "-m", "iotrial.cli.main", "status", str(folder), "--follow"],
        stdin=theirs, stdout=theirs, stderr=subprocess.DEVNULL,
        env={**os.environ, "TERM": "xterm", "NO_COLOR": "1"},
    )  # fmt: skip
    os.close(theirs)
    written: list[bytes] = []

    def read() -> None:
        with suppress(OSError):  # it has ended
            while data := os.read(ours, 1 << 16):
                written.append(data)
        os.close(ours)

    reader = threading.Thread(target=read)
    reader.start()
    return follower, written, reader


@pytest.mark.root
def test_a_real_run_shows_what_its_trials_stored(tmp_path: Path, state: Path, browser: str) -> None:
    study, results = tmp_path / "study.toml", tmp_path / "results"
    study.write_text(STUDY.format(folder=tmp_path))
    command = [sys.executable, "-m", "iotrial.cli.main", "run", str(study), "--out", str(results)]
    with (
        subprocess.Popen(
            [*command, "--live"], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        ) as process,
        Browser(browser, tmp_path / "profile") as found,
    ):  # fmt: skip
        assert process.stderr
        try:
            page = next(line for line in process.stderr if line.startswith("live: ")).split()[1]
            tab = found.tab()
            tab.go(page)
            tab.until("now !== null && points.length > 0", 120)
            follower = subprocess.Popen(
                [sys.executable, "-m", "iotrial.cli.main", "status", str(results), "--follow"],
                stdout=subprocess.PIPE, text=True,
            )  # fmt: skip
            window, written, reader = on_a_terminal(results)
            tab.until("now.state === 'over'", 240)
            points = tab.see("points")
            said, _ = follower.communicate(timeout=200)
            reader.join(60)
            process.stderr.read()
            assert process.wait(200) == follower.returncode == window.wait(200) == 0
        finally:
            if process.poll() is None:
                process.terminate()
    stored = [rates(path) for path in sorted(results.glob("trials/*/telemetry.jsonl"))]
    every = [each for trial in stored for each in trial]
    shown = [point[1] for point in points]
    assert len(shown) >= len(every) / 2
    for each in shown:
        assert any(abs(each - other) <= 1e-4 * other + 0.01 for other in every), each
    assert "read" in said
    assert said.splitlines()[-1].endswith("  over")
    lines = [line.split() for line in b"".join(written).decode().splitlines()]
    rows = {" ".join(line) for line in lines if line[:2] == ["local", "disk"]}
    assert len(rows) > 2, lines[-40:]


def rates(path: Path) -> list[float]:
    """Reads a second between the lines of a trial's telemetry; of two that are very near each
    other the first is left out."""
    first, *rows = [json.loads(line) for line in path.read_text().splitlines()]
    found = []
    for row in rows:
        if (took := row["t"] - first["t"]) >= SHORTEST:
            found.append((row["disk"]["reads"] - first["disk"]["reads"]) / took)
            first = row
    return found

"""A browser that is looked into while a page lives: Chromium, spoken to over a pipe.

``--dump-dom`` sees one moment.  A page that moves needs questions in between: the DevTools
protocol (https://chromedevtools.github.io/devtools-protocol/), NUL-terminated JSON on file
descriptors 3 and 4 (``--remote-debugging-pipe``), which needs no port and no library.
"""

from __future__ import annotations

import base64
import json
import os
import select
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

FLAGS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--hide-scrollbars", "--disable-dev-shm-usage", "--remote-debugging-pipe",
)  # fmt: skip
WAIT = 60.0
_EXEC = "import os, sys; r, w = map(int, sys.argv[1:3]); os.dup2(r, 13); os.dup2(w, 14); \
os.dup2(13, 3); os.dup2(14, 4); os.execvp(sys.argv[3], sys.argv[3:])"


class Browser:
    """A context; a ``Tab`` is opened in it.  Each is a browser of its own, with its own profile."""

    def __init__(self, path: str, profile: Path, *flags: str) -> None:
        self._argv = [path, *FLAGS, f"--user-data-dir={profile}", *flags, "about:blank"]
        self._number = 0
        self._said = b""
        self.events: list[dict[str, Any]] = []

    def __enter__(self) -> Self:
        theirs, self._to = os.pipe()
        self._from, back = os.pipe()
        self._process = subprocess.Popen(
            [sys.executable, "-c", _EXEC, str(theirs), str(back), *self._argv],
            pass_fds=(theirs, back),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(theirs)
        os.close(back)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        os.close(self._to)  # which it takes for the end
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._from)

    def tab(self, width: int = 1280, height: int = 900) -> Tab:
        made = self.call("Target.createTarget", {"url": "about:blank"})
        session = self.call(
            "Target.attachToTarget", {"targetId": made["targetId"], "flatten": True}
        )["sessionId"]
        found = Tab(self, session)
        for domain in ("Page", "Runtime", "Log", "Network"):
            found.call(f"{domain}.enable")
        found.resize(width, height)
        return found

    def call(
        self, method: str, parameters: dict[str, Any] | None = None, session: str = ""
    ) -> dict[str, Any]:
        """The answer to one command; events that come meanwhile are kept."""
        self._number += 1
        told: dict[str, Any] = {"id": self._number, "method": method, "params": parameters or {}}
        if session:
            told["sessionId"] = session
        os.write(self._to, json.dumps(told).encode() + b"\0")
        deadline = time.monotonic() + WAIT
        while True:
            message = self._message(deadline)
            if message.get("id") == self._number:
                assert "error" not in message, f"{method}: {message['error']}"
                return dict(message["result"])
            self.events.append(message)

    def _message(self, deadline: float) -> dict[str, Any]:
        while b"\0" not in self._said:
            ready, _, _ = select.select([self._from], [], [], max(deadline - time.monotonic(), 0))
            assert ready, "the browser does not answer"
            data = os.read(self._from, 1 << 16)
            assert data, f"the browser has ended: {self._process.poll()}"
            self._said += data
        message, _, self._said = self._said.partition(b"\0")
        return dict(json.loads(message))


class Tab:
    """One page."""

    def __init__(self, browser: Browser, session: str) -> None:
        self._browser, self._session = browser, session

    def call(self, method: str, parameters: dict[str, Any] | None = None) -> dict[str, Any]:
        return self._browser.call(method, parameters, self._session)

    def resize(self, width: int, height: int) -> None:
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.call("Emulation.setDeviceMetricsOverride", size)

    def dark(self) -> None:
        feature = {"name": "prefers-color-scheme", "value": "dark"}
        self.call("Emulation.setEmulatedMedia", {"features": [feature]})

    def go(self, url: str) -> None:
        self.call("Page.navigate", {"url": url})
        self.until("document.readyState === 'complete'")

    def reload(self) -> None:
        self.call("Page.reload")

    def see(self, expression: str) -> Any:  # noqa: ANN401 (what the page says)
        about = {"expression": expression, "returnByValue": True}
        found = self.call("Runtime.evaluate", about)
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def until(self, expression: str, seconds: float = WAIT) -> Any:  # noqa: ANN401
        """Wait until it is true in the page; gives back what it is then."""
        deadline = time.monotonic() + seconds
        while True:
            found = self.call("Runtime.evaluate", {"expression": expression, "returnByValue": True})
            value = found["result"].get("value") if "exceptionDetails" not in found else None
            if value:
                return value
            assert time.monotonic() < deadline, f"never: {expression}"
            time.sleep(0.1)

    def shot(self, path: Path) -> None:
        found = self.call("Page.captureScreenshot", {"captureBeyondViewport": True})
        path.write_bytes(base64.b64decode(found["data"]))

    def requests(self) -> list[str]:
        """Every address that it asked for."""
        return [
            event["params"]["request"]["url"]
            for event in self._browser.events
            if event.get("method") == "Network.requestWillBeSent"
        ]

    def complaints(self) -> list[str]:
        """What its console says, and exceptions."""
        return [
            json.dumps(event["params"])
            for event in self._browser.events
            if event.get("method")
            in ("Log.entryAdded", "Runtime.exceptionThrown", "Runtime.consoleAPICalled")
        ]

"""A headless Chromium that opens pages for tests: what a page loads, reports and looks like."""

from __future__ import annotations

import json
import os
import subprocess
from base64 import b64decode
from collections.abc import Iterator
from contextlib import contextmanager
from fcntl import F_DUPFD_CLOEXEC, fcntl
from pathlib import Path
from select import select
from tempfile import TemporaryDirectory
from time import monotonic
from typing import Any

from msgspec import Struct, field

from tests.needs import need

PROGRAM = "chromium"
TIMEOUT = 60.0
"""Seconds for one command: starting it on a busy machine takes a while."""
OPTIONS = (
    "--headless=new",
    "--no-sandbox",  # it runs as root in CI
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--no-first-run",
    "--no-default-browser-check",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
)


class ShownPage(Struct):
    """A page in the browser, and what it has done so far."""

    browser: Browser
    session: str
    requests: list[str] = field(default_factory=list)
    messages: list[str] = field(default_factory=list)
    """Errors, warnings, violations of its policy, exceptions, and dialogs."""

    def send(self, method: str, **parameters: Any) -> Any:
        return self.browser.send(method, parameters, self.session)

    def evaluate(self, expression: str) -> Any:
        """Return the value of an expression, as JSON."""
        done = self.send("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in done, done
        return done["result"].get("value")

    def set_view(self, width: int, height: int = 900, scheme: str = "light", scale: float = 1) -> None:
        self.send(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=scale, mobile=False
        )
        self.send("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def screenshot(self, form: str = "png", *, whole: bool = False) -> bytes:
        """Return a picture of what can be seen, or of the whole page."""
        return b64decode(self.send("Page.captureScreenshot", format=form, captureBeyondViewport=whole)["data"])


class Browser:
    """The connection to one Chromium process."""

    def __init__(self, commands: int, events: int) -> None:
        self._commands, self._events = commands, events
        self._held = bytearray()
        self._number = 0
        self._pages: dict[str, ShownPage] = {}

    def open(self, file: Path, width: int = 1200, scheme: str = "light") -> ShownPage:
        """Open a page and wait until it is loaded."""
        target = self.send("Target.createTarget", {"url": "about:blank"})["targetId"]
        session = self.send("Target.attachToTarget", {"targetId": target, "flatten": True})["sessionId"]
        page = self._pages[session] = ShownPage(self, session)
        for domain in ("Page", "Runtime", "Network", "Log"):
            page.send(f"{domain}.enable")
        page.set_view(width, scheme=scheme)
        page.send("Page.navigate", url=file.as_uri())
        deadline = monotonic() + TIMEOUT
        while page.evaluate("document.readyState") != "complete" or page.evaluate("location.href") == "about:blank":
            assert monotonic() < deadline, f"{file} is not loaded"
        return page

    def send(self, method: str, parameters: dict[str, Any], session: str | None = None) -> Any:
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if session is not None:
            message["sessionId"] = session
        os.write(self._commands, json.dumps(message).encode() + b"\0")
        while (answer := self._receive()).get("id") != self._number:
            self._note(answer)
        assert "error" not in answer, f"{method}: {answer}"
        return answer["result"]

    def _receive(self) -> Any:
        while b"\0" not in self._held:
            ready, _, _ = select([self._events], [], [], TIMEOUT)
            assert ready, "the browser does not answer"
            data = os.read(self._events, 1 << 20)
            assert data, "the browser has ended"
            self._held += data
        message, _, self._held = self._held.partition(b"\0")
        return json.loads(message)

    def _note(self, event: dict[str, Any]) -> None:
        page, told = self._pages.get(event.get("sessionId", "")), event.get("params", {})
        if page is None:
            return
        match event["method"]:
            case "Network.requestWillBeSent":
                page.requests.append(told["request"]["url"])
            case "Log.entryAdded":
                page.messages.append(told["entry"]["text"])
            case "Runtime.consoleAPICalled" | "Runtime.exceptionThrown" | "Page.javascriptDialogOpening":
                page.messages.append(json.dumps(told))


@contextmanager
def chromium() -> Iterator[Browser]:
    """Start a browser; skips the test if there is none."""
    need(PROGRAM)
    (commands_out, commands), (events, events_in) = _high_pipe(), _high_pipe()
    with TemporaryDirectory(prefix="chromium-", ignore_cleanup_errors=True) as profile:
        process = subprocess.Popen(
            # It reads descriptor 3 and writes descriptor 4.
            [
                "bash",
                "-c",
                f'exec "$@" 3<&{commands_out} 4>&{events_in}',
                "-",
                PROGRAM,
                *OPTIONS,
                f"--user-data-dir={profile}",
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=(commands_out, events_in),
        )
        os.close(commands_out)
        os.close(events_in)
        try:
            yield Browser(commands, events)
        finally:
            os.close(commands)
            os.close(events)
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _high_pipe() -> tuple[int, int]:
    """Return a pipe whose descriptors are not the ones that the browser uses."""
    low = os.pipe()
    high = fcntl(low[0], F_DUPFD_CLOEXEC, 10), fcntl(low[1], F_DUPFD_CLOEXEC, 10)
    for each in low:
        os.close(each)
    return high

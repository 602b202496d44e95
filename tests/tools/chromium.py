"""A headless Chromium, through its debugging protocol on a pipe."""

import base64
import json
import os
import select
import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--disable-dev-shm-usage", "--remote-debugging-pipe",
)  # fmt: skip
_SECONDS = 60


class Chromium:
    """A browser with one page.

    Attributes:
        requests: the URLs that the page has asked for.
        errors: what it has written to the console as an error or a warning.
    """

    def __init__(self, commands: int, answers: int) -> None:
        self._commands, self._answers, self._rest = commands, answers, b""
        self._number, self._session = 0, ""
        self.requests: list[str] = []
        self.errors: list[str] = []
        self._loaded = False
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Network", "Runtime", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Send a command, and return its result."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._commands, json.dumps(message).encode() + b"\0")
        while (answer := self._receive()).get("id") != self._number:
            pass
        assert "error" not in answer, answer
        result: dict[str, Any] = answer["result"]
        return result

    def open(self, page: Path | str, width: int = 1280, dark: bool = False) -> None:
        """Load a page.

        Args:
            page: its file or URL.
            width: of the window, in pixels.
            dark: whether the user prefers dark colours.
        """
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        self.call("Emulation.setDeviceMetricsOverride", **size)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        self._loaded = False
        self.call("Page.navigate", url=page.as_uri() if isinstance(page, Path) else page)
        while not self._loaded:
            self._receive()

    def evaluate(self, expression: str) -> Any:
        """Evaluate JavaScript in the page, and return its value."""
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    def save_screenshot(self, path: Path, top: int = 0, height: int = 900) -> None:
        """Write a picture of a part of the page."""
        width = self.evaluate("window.innerWidth")
        clip = {"x": 0, "y": top, "width": width, "height": height, "scale": 1}
        picture = self.call("Page.captureScreenshot", clip=clip, captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(picture["data"]))

    def _receive(self) -> dict[str, Any]:
        """Return the next message, after noting what it tells of the page."""
        end = time.monotonic() + _SECONDS
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._answers], [], [], max(0, end - time.monotonic()))
            part = os.read(self._answers, 2**20) if ready else b""
            assert part, "Chromium does not answer"
            self._rest += part
        text, _, self._rest = self._rest.partition(b"\0")
        message: dict[str, Any] = json.loads(text)
        parameters = message.get("params", {})
        match message.get("method"):
            case "Network.requestWillBeSent":
                self.requests.append(parameters["request"]["url"])
            case "Runtime.exceptionThrown" | "Log.entryAdded" | "Runtime.consoleAPICalled":
                self.errors.append(json.dumps(parameters))
            case "Page.loadEventFired":
                self._loaded = True
        return message


@contextmanager
def open_chromium(profile: Path) -> Iterator[Chromium]:
    """Start a browser for the block; skip the test where none is installed.

    Args:
        profile: an empty folder.
    """
    binary = next(filter(None, map(shutil.which, _NAMES)), None)
    if binary is None:
        pytest.skip(f"no Chromium is installed (none of {', '.join(_NAMES)} is on the path)")
    with _start([binary, *_FLAGS, f"--user-data-dir={profile}"]) as (commands, answers):
        yield Chromium(commands, answers)


@contextmanager
def _start(command: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Run a command that reads from descriptor 3 and writes to 4, and yield their other ends."""
    read_commands, commands = os.pipe()
    answers, write_answers = os.pipe()
    redirected = f'exec "$0" "$@" 3<&{read_commands} 4>&{write_answers}'
    with subprocess.Popen(
        ["bash", "-c", redirected, *command],
        pass_fds=(read_commands, write_answers),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        os.close(read_commands)
        os.close(write_answers)
        try:
            yield commands, answers
        finally:
            os.close(commands)  # at which the browser ends
            os.close(answers)
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()

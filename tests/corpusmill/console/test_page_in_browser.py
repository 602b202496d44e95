"""The HTML report in a real browser: widths, colours, filters, and that it asks for nothing."""

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

from corpusmill.console.html_report import render_page
from tests.tools.reports import draw_from, hostile_manifest
from tests.tools.small_datasets import WITH_REJECT, Recipe, write_dataset

# A headless Chromium, through its debugging protocol on a pipe.


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


# Contrast of each text with what is painted below it, after the Web Content Accessibility
# Guidelines 2.1, and the texts of less than 4.5.
_CONTRAST = """(() => {
  const parse = text => text.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => [r, g, b].map(c => c / 255).map(
    c => c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4).reduce(
    (sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
  const ground = element => {
    for (let e = element; e; e = e.parentElement) {
      const colour = parse(getComputedStyle(e).backgroundColor);
      if ((colour[3] ?? 1) === 1) return colour;
    }
    return [255, 255, 255];
  };
  const poor = [];
  for (const element of document.querySelectorAll("body *")) {
    const own = [...element.childNodes].some(n => n.nodeType === 3 && n.data.trim());
    if (!own || element.closest("style")) continue;
    const ink = light(parse(getComputedStyle(element).color));
    const below = light(ground(element));
    const contrast = (Math.max(ink, below) + 0.05) / (Math.min(ink, below) + 0.05);
    if (contrast < 4.5) poor.push([contrast, element.outerHTML.slice(0, 60)]);
  }
  return poor;
})()"""
# Of plots: the smallest text, in pixels; and how far labels of bins overlap, or leave their plot.
_SMALLEST = """Math.min(...[...document.querySelectorAll(".plot *")].map(
  element => parseFloat(getComputedStyle(element).fontSize)))"""
_OVERLAP = """Math.max(...[...document.querySelectorAll(".bins")].flatMap(bins => {
  const edge = bins.closest(".plot").getBoundingClientRect();
  const ticks = [...bins.querySelectorAll(".tick")].map(tick => tick.getBoundingClientRect());
  return ticks.map((tick, i) => Math.max((ticks[i - 1]?.right ?? edge.left) - tick.left,
    edge.left - tick.left, tick.right - edge.right));
}))"""
_SHOWN = '[...document.querySelectorAll(".example")].filter(e => e.offsetHeight).length'


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("page")
    manifest = hostile_manifest(
        write_dataset(folder / "out", Recipe(text=WITH_REJECT, validation_share=0.3))
    )
    path = folder / "report.html"
    path.write_text(draw_from(folder / "out", manifest, render_page), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chromium]:
    with open_chromium(tmp_path_factory.mktemp("profile")) as browser:
        yield browser


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [390, 1280])
def test_the_page_fits_and_can_be_read(
    chromium: Chromium, page: Path, width: int, dark: bool
) -> None:
    before = len(chromium.requests)
    chromium.open(page, width, dark)
    assert chromium.evaluate("document.documentElement.scrollWidth") <= width
    assert chromium.evaluate(_CONTRAST) == []
    assert chromium.evaluate(_SMALLEST) >= 12
    assert chromium.evaluate(_OVERLAP) <= 0
    assert chromium.requests[before:] == [page.as_uri()]
    assert chromium.errors == []
    if folder := os.environ.get("CORPUSMILL_SCREENSHOTS"):
        height = chromium.evaluate("document.documentElement.scrollHeight")
        name = f"{page.stem}-{width}-{'dark' if dark else 'light'}.png"
        chromium.save_screenshot(Path(folder) / name, height=min(height, 6000))


def test_colours_follow_the_preference(chromium: Chromium, page: Path) -> None:
    colours = []
    for dark in (False, True):
        chromium.open(page, dark=dark)
        colours.append(
            [
                chromium.evaluate(f'getComputedStyle(document.querySelector("{name}")).{what}')
                for name, what in (
                    ("body", "backgroundColor"), ("body", "color"), (".bar", "backgroundColor"),
                    (".masked", "backgroundColor"), (".example", "backgroundColor"),
                )
            ]
        )  # fmt: skip
    for light, dark_one in zip(*colours, strict=True):
        assert light != dark_one


def test_filters_and_links_work_without_a_script(chromium: Chromium, page: Path) -> None:
    chromium.open(page)
    total = chromium.evaluate(_SHOWN)
    assert total >= 200
    assert chromium.evaluate('document.querySelectorAll("script").length') == 0
    for title in ("split", "tokens", "second segment"):
        shown = chromium.evaluate(
            f"""(() => {{
              const group = [...document.querySelectorAll("fieldset")].find(
                one => one.querySelector("legend").textContent === {title!r});
              const inputs = [...group.querySelectorAll("input")];
              const shown = inputs.map(input => {{ input.click(); return {_SHOWN}; }});
              inputs[0].click();
              return shown;
            }})()"""
        )
        assert shown[0] == total
        assert sum(shown[1:]) == total
        assert min(shown) > 0
    chromium.open(page, 390)
    clamped = 'document.querySelector("#example-{0} p").clientHeight'
    long = chromium.evaluate(
        '[...document.querySelectorAll(".segment p")].find(p => p.scrollHeight > p.clientHeight)'
        '.closest("article").id.split("-")[1]'
    )
    before = chromium.evaluate(clamped.format(long))
    chromium.evaluate(f'document.querySelector("#example-{long} a").click()')
    assert chromium.evaluate("window.scrollY") > 0
    assert chromium.evaluate(clamped.format(long)) > before

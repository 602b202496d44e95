"""The HTML report in a real browser: widths, colours, filters, and that it asks for nothing."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from corpusmill.console.html_report import render_page
from tests.tools.chromium import Chromium, open_chromium
from tests.tools.reports import draw_from, hostile_manifest
from tests.tools.small_datasets import WITH_REJECT, Recipe, write_dataset

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

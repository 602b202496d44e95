import io
import re
import xml.etree.ElementTree as ET
from dataclasses import dataclass, replace
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from corpusmill.dataset.distributions import as_mapping
from corpusmill.dataset.manifest import Manifest, SourceFile
from corpusmill.inspection.decoded_examples import DecodedExample, Piece, decode_examples
from corpusmill.inspection.figures import Distribution, Report, summarize
from pipeline.console.html_report import bin_shares, draw_plots, render_page
from pipeline.console.terminal_report import print_inspection
from tests.tools.small_datasets import WITH_REJECT, Recipe, write_dataset

EXAMPLE = DecodedExample(
    segments=(
        (
            Piece("the", False, "plain", "the"),
            Piece("light", False, "masked", "[MASK]"),
            Piece("house", True, "plain", "house"),
            Piece("lamp", False, "replaced", "tree"),
            Piece("sea", False, "kept", "sea"),
        ),
        (),
    ),
    classes={"second segment": "random"},
    length=8,
    predictions=3,
)


@dataclass(frozen=True)
class Inspected:
    manifest: Manifest
    examples: list[DecodedExample]
    report: Report


@pytest.fixture(scope="module")
def inspected(tmp_path_factory: pytest.TempPathFactory) -> Inspected:
    folder = tmp_path_factory.mktemp("reports") / "out"
    manifest = write_dataset(folder, Recipe(text=WITH_REJECT))
    # A name of the corpus that would be markup, for rich and for a browser, if it were not escaped.
    hostile = SourceFile("[bold]<script>alert(1)</script>.txt", len(WITH_REJECT))
    manifest = replace(manifest, corpus=replace(manifest.corpus, files=(hostile,)))
    rows = pq.ParquetFile(folder / "train-00000-of-00003.parquet").read_row_group(0)
    tokenizer_json = (folder / "tokenizer.json").read_text()
    special = manifest.tokenizer.special
    batch = rows.to_batches()[0].slice(0, 3)
    examples = decode_examples(batch, manifest.columns, tokenizer_json, special)
    return Inspected(manifest, examples, summarize(manifest))


def printed(inspected: Inspected, examples: list[DecodedExample], **options: Any) -> str:
    stream = io.StringIO()
    console = Console(file=stream, **options)
    print_inspection(console, inspected.manifest, examples, inspected.report)
    return stream.getvalue()


def test_plain_output_marks_predictions_with_brackets(inspected: Inspected) -> None:
    text = printed(inspected, [EXAMPLE], force_terminal=False)
    assert "  A  the [MASK->light]house [tree->lamp] [=sea]\n" in text
    assert "  B  (empty)\n" in text
    assert "example 1: 8 tokens, 3 predictions, second segment: random\n" in text
    assert "\x1b" not in text


def test_plain_output_keeps_lines_whole(inspected: Inspected) -> None:
    words = tuple(Piece(f"word{i}", False, "plain", "") for i in range(200))
    example = replace(EXAMPLE, segments=(words,))
    text = printed(inspected, [example], force_terminal=False, width=40)
    assert " ".join(f"word{i}" for i in range(200)) in text
    for line in text.splitlines():
        assert line == line.rstrip()


def test_a_terminal_shows_colours_instead_of_brackets(
    inspected: Inspected, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    text = printed(inspected, [EXAMPLE], force_terminal=True, color_system="standard", width=100)
    assert "[MASK->" not in text
    assert "\x1b[1;36mlight\x1b[0mhouse" in text
    assert "\x1b[9;31mtree\x1b[0m" in text
    assert "\x1b[1;33mlamp\x1b[0m" in text
    assert "\x1b[1;32msea\x1b[0m" in text


def test_a_terminal_without_colours_shows_brackets(inspected: Inspected) -> None:
    text = printed(inspected, [EXAMPLE], force_terminal=True, no_color=True, width=100)
    assert "[MASK->light]house" in text


@pytest.mark.parametrize("terminal", [False, True])
def test_every_figure_and_split_is_printed(inspected: Inspected, terminal: bool) -> None:
    options: dict[str, Any] = {"force_terminal": terminal, "color_system": None, "width": 200}
    text = printed(inspected, inspected.examples, **options)
    for split in inspected.report.splits:
        assert f"{split.name}: {split.rows:,} examples, {split.tokens:,} tokens" in text
        for figure in split.figures:
            assert re.search(rf"{re.escape(figure.name)} +{re.escape(figure.text)}", text)
    assert text.count("\nexample ") == len(inspected.examples)
    assert re.search(r"rejects +1 ", text)


def test_names_are_not_taken_for_markup(inspected: Inspected) -> None:
    tokenizer = replace(inspected.manifest.tokenizer, name="[/bold]x")
    manifest = replace(inspected.manifest, tokenizer=tokenizer)
    text = printed(replace(inspected, manifest=manifest), [], force_terminal=False)
    assert "[/bold]x" in text


class _Page(HTMLParser):
    """Gathers what the tests ask about."""

    _VOID = frozenset({"meta", "br", "hr", "img", "link"})

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.links: list[str] = []
        self.ids: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.open += [] if tag in self._VOID else [tag]
        self.links += [attr or "" for name, attr in attrs if name in {"src", "href", "xlink:href"}]
        self.ids += [attr or "" for name, attr in attrs if name == "id"]

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in self._VOID:
            self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def parse(page: str) -> _Page:
    parsed = _Page()
    parsed.feed(page)
    parsed.close()
    assert parsed.open == []
    return parsed


def test_the_page_needs_nothing_beside_itself(inspected: Inspected) -> None:
    page = render_page(inspected.manifest, inspected.examples, inspected.report)
    parsed = parse(page)
    assert {"script", "link", "img", "iframe"}.isdisjoint(parsed.tags)
    assert all(link.startswith("#") for link in parsed.links)
    assert "@import" not in page
    assert "url(http" not in page
    assert len(parsed.ids) == len(set(parsed.ids))
    assert {link.removeprefix("#") for link in parsed.links} <= set(parsed.ids)


def test_the_page_shows_figures_plots_and_examples(inspected: Inspected) -> None:
    page = render_page(inspected.manifest, [EXAMPLE, *inspected.examples], inspected.report)
    parsed = parse(page)
    for split in inspected.report.splits:
        for figure in split.figures:
            assert figure.text in parsed.text
    assert parsed.tags.count("svg") == 1
    assert page.count('<div class="example">') == 1 + len(inspected.examples)
    words = re.sub(r"\s+", " ", page)
    assert '<b class="masked" title="the input has [MASK] here">light</b>house' in words
    assert "<s>tree</s> lamp</b> <b" in words
    assert "(empty)" in words
    assert "8 tokens, 3 predictions, second segment: random" in words


def test_text_of_the_corpus_is_escaped(inspected: Inspected) -> None:
    evil = "<script>alert('x')</script>&\""
    pieces = tuple(
        Piece(evil, False, kind, evil) for kind in ("plain", "masked", "replaced", "kept")
    )
    example = replace(EXAMPLE, segments=(pieces, pieces))
    page = render_page(inspected.manifest, [example], inspected.report)
    parsed = parse(page)
    assert "script" not in parsed.tags
    assert (
        parsed.text.count(evil) == 10
    )  # a replaced piece shows two texts, in each of two segments
    assert "[bold]<script>alert(1)</script>.txt" in parsed.text


def test_names_of_distributions_are_escaped_in_the_plots(inspected: Inspected) -> None:
    split = inspected.report.splits[0]
    named = replace(split, distributions=(Distribution("<script>&", {0: 1, 1: 2, 2: 3}),))
    svg = draw_plots(replace(inspected.report, splits=(named,)))
    ET.fromstring(svg)  # noqa: S314 - our own text
    assert "<script" not in svg


def test_the_same_data_set_gives_the_same_page(inspected: Inspected) -> None:
    pages = {
        render_page(inspected.manifest, inspected.examples, inspected.report) for _ in range(2)
    }
    assert len(pages) == 1


def test_a_data_set_without_distributions_has_a_page(inspected: Inspected) -> None:
    splits = tuple(
        replace(split, distributions=(), figures=()) for split in inspected.report.splits
    )
    parsed = parse(render_page(inspected.manifest, [], replace(inspected.report, splits=splits)))
    assert "svg" not in parsed.tags


@given(st.lists(st.integers(0, 700), min_size=1), st.integers(0, 300))
def test_bins_hold_every_example_once(values: list[int], beyond: int) -> None:
    distribution = Distribution("length", as_mapping(np.bincount(values)))
    largest = distribution.largest + beyond
    shares, edges = bin_shares(distribution, largest)
    assert len(shares) <= 64
    assert len(edges) == len(shares) + 1
    assert edges[0] == 0
    assert edges[-2] <= largest < edges[-1]
    expected = np.histogram(values, edges - 0.5)[0] / len(values)
    assert np.allclose(shares, expected)
    assert np.isclose(shares.sum(), 1)


def test_bins_of_the_docstring() -> None:
    shares, edges = bin_shares(Distribution("length", {1: 1, 2: 3}), 2)
    assert shares.tolist() == [0, 0.25, 0.75]
    assert edges.tolist() == [0, 1, 2, 3]

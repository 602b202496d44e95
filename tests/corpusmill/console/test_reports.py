import io
import re
from dataclasses import dataclass, replace
from html.parser import HTMLParser
from typing import Any

import pytest
from rich.console import Console

from corpusmill.console.html_report import render_page
from corpusmill.console.plots import plot_report
from corpusmill.console.terminal_report import print_inspection
from corpusmill.dataset.manifest import Manifest
from corpusmill.dataset.manifest_entries import SourceFile
from corpusmill.errors import printable
from corpusmill.inspection.decoded_examples import DecodedExample, DrawnExample, Piece
from corpusmill.inspection.figures import Distribution, Report, summarize
from tests.tools.reports import HOSTILE_NAME, draw_all, hostile_manifest
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
    drawn: list[DrawnExample]
    report: Report

    @property
    def examples(self) -> list[DecodedExample]:
        return [drawn.example for drawn in self.drawn]


@pytest.fixture(scope="module")
def inspected(tmp_path_factory: pytest.TempPathFactory) -> Inspected:
    folder = tmp_path_factory.mktemp("reports") / "out"
    manifest = write_dataset(folder, Recipe(text=WITH_REJECT))
    manifest = hostile_manifest(manifest)
    return Inspected(manifest, draw_all(folder, manifest, 3), summarize(manifest))


def draw(example: DecodedExample) -> DrawnExample:
    return DrawnExample("train", "train-00000-of-00003.parquet", 7, example)


def printed(inspected: Inspected, examples: list[DecodedExample], **options: Any) -> str:
    stream = io.StringIO()
    console = Console(file=stream, **options)
    print_inspection(console, inspected.manifest, examples, inspected.report)
    return stream.getvalue()


def test_plain_output_marks_predictions_with_brackets(inspected: Inspected) -> None:
    # Nor is the name of a file taken for markup, or a line wrapped.
    tokenizer = replace(inspected.manifest.tokenizer, name="[/bold]x")
    named = replace(inspected, manifest=replace(inspected.manifest, tokenizer=tokenizer))
    words = tuple(Piece(f"word{i}", False, "plain", "") for i in range(200))
    examples = [EXAMPLE, replace(EXAMPLE, segments=(words,))]
    text = printed(named, examples, force_terminal=False, width=40)
    assert "  A  the [MASK->light]house [tree->lamp] [=sea]\n" in text
    assert "  B  (empty)\n" in text
    assert "example 1: 8 tokens, 3 predictions, second segment: random\n" in text
    assert "\x1b" not in text
    assert "[/bold]x" in text
    assert " ".join(f"word{i}" for i in range(200)) in text
    assert all(line == line.rstrip() for line in text.splitlines())


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

    plain = printed(inspected, [EXAMPLE], force_terminal=True, no_color=True, width=100)
    assert "[MASK->light]house" in plain


def test_every_figure_and_split_is_printed(inspected: Inspected) -> None:
    for terminal in (False, True):
        options: dict[str, Any] = {"force_terminal": terminal, "color_system": None, "width": 200}
        text = printed(inspected, inspected.examples, **options)
        for split in inspected.report.splits:
            assert f"{split.name}: {split.rows:,} examples, {split.tokens:,} tokens" in text
            for figure in split.figures:
                assert re.search(rf"{re.escape(figure.name)} +{re.escape(figure.text)}", text)
        assert text.count("\nexample ") == len(inspected.examples)
        assert re.search(r"rejects +1 ", text)


class _Page(HTMLParser):
    """Gathers what the tests ask about."""

    _VOID = frozenset({"meta", "br", "hr", "img", "input", "link"})

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
    page = render_page(inspected.manifest, inspected.drawn, inspected.report)
    assert page == render_page(inspected.manifest, inspected.drawn, inspected.report)
    parsed = parse(page)
    assert {"script", "link", "img", "iframe"}.isdisjoint(parsed.tags)
    assert all(link.startswith("#") for link in parsed.links)
    assert "@import" not in page
    assert "url(http" not in page
    assert len(parsed.ids) == len(set(parsed.ids))
    assert {link.removeprefix("#") for link in parsed.links} <= set(parsed.ids)


def test_the_page_shows_figures_plots_and_examples(inspected: Inspected) -> None:
    drawn = [draw(EXAMPLE), *inspected.drawn]
    page = render_page(inspected.manifest, drawn, inspected.report)
    parsed = parse(page)
    for split in inspected.report.splits:
        for figure in split.figures:
            assert figure.text in parsed.text
    names = {one.name for split in inspected.report.splits for one in split.distributions}
    assert parsed.tags.count("figure") == len(names)
    for number in range(1, len(drawn) + 1):
        assert f'id="example-{number}"' in page
        assert f'href="#example-{number}"' in page
    words = re.sub(r"\s+", " ", page)
    assert '<b class="masked">light</b>house' in words
    assert "<s>tree</s> lamp</b> <b" in words
    assert "(empty)" in words
    shown = re.sub(r"\s+", " ", parsed.text)
    assert "8 tokens 3 predictions second segment: random" in shown
    assert "train-00000-of-00003.parquet, row 7" in shown


def test_plots_are_described_in_words(inspected: Inspected) -> None:
    page = render_page(inspected.manifest, [], inspected.report)
    labels = re.findall(r'role="img" aria-label="([^"]+)"', page)
    distributions = inspected.report.splits[0].distributions
    assert len(labels) == sum(not own.value_names for own in distributions)
    for label in labels:
        assert "share of examples. train: " in label
        assert "percentiles 5, 25, 50, 75, 95" in label
    shown = re.sub(r"\s+", " ", parse(page).text)
    for own in distributions:
        for value, name in enumerate(own.value_names):
            assert f"{name} {100 * own.share(value):.3g} %" in shown


def test_bars_are_as_long_as_shares_and_splits_differ_by_shape(inspected: Inspected) -> None:
    names = ("train", "validation", "test")
    numbers = ([0, 1, 3], [4, 1, 0], [2, 1, 1])
    for value_names, length in (((), "height"), (("a", "b", "c"), "width")):
        splits = tuple(
            replace(
                inspected.report.splits[0], name=name,
                distributions=(Distribution("x", dict(enumerate(counts)), value_names),),
            )
            for name, counts in zip(names, numbers, strict=True)
        )  # fmt: skip
        page = render_page(inspected.manifest, [], replace(inspected.report, splits=splits))
        bars = re.findall(rf'class="bar (s\d)" style="{length}: ([\d.]+)%"', page)
        drawn = [(style, float(percent)) for style, percent in bars if float(percent)]
        assert drawn == [
            ("s1", 100.0), ("s2", 62.5), ("s0", 31.2), ("s1", 25.0), ("s2", 31.2), ("s0", 93.8),
            ("s2", 31.2),
        ]  # fmt: skip
        for name in names:
            assert f"</i>{name}</li>" in page


def test_odd_distributions_can_be_plotted(inspected: Inspected) -> None:
    odd = (
        Distribution("nothing", {}),
        Distribution("zeros", {0: 9}),
        Distribution("classes", {0: 1}, ("w" * 500, "v" * 500, "u"), "class"),
        Distribution("one", {2**40: 1}),
        Distribution("far", {**dict.fromkeys(range(128), 9), 10**6: 1}),
    )
    split = replace(inspected.report.splits[0], distributions=odd)
    report = replace(inspected.report, splits=(split,))
    plots = list(plot_report(report))
    assert [plot.title for plot in plots] == ["nothing", "zeros", "classes", "one", "far"]
    for plot in plots:
        assert all(0 <= share <= plot.top for bar in plot.bars for share in bar.shares)
        assert plot.has_classes or 1 <= sum(bar.tick != "" for bar in plot.bars) <= 6
    assert [plot.has_rest for plot in plots] == [False, False, False, False, True]
    assert [bar.tick for bar in plots[-1].bars if bar.tick] == ["0", "32", "64", "96", "128+"]
    assert parse(render_page(inspected.manifest, [], report)).tags.count("figure") == len(odd)


def test_text_of_the_corpus_is_escaped(inspected: Inspected) -> None:
    evil = "<script>alert('x')</script>&\"\x1b[2J\u202e"
    shown = printable(evil)
    pieces = tuple(
        Piece(evil, False, kind, evil) for kind in ("plain", "masked", "replaced", "kept")
    )
    example = replace(EXAMPLE, segments=(pieces, pieces), classes={evil: evil})
    drawn = [draw(example), DrawnExample(evil, evil, 0, EXAMPLE)]
    page = render_page(inspected.manifest, drawn, inspected.report)
    parsed = parse(page)
    assert "script" not in parsed.tags
    # A replaced piece shows two texts, in each of two segments; the others are a title, a class, a
    # split and a shard, and a filter's title and choices.
    assert parsed.text.count(shown) == 10 + 3 + 1 + 2
    assert not {"\x1b", "\u202e"} & {*page}
    assert HOSTILE_NAME in parsed.text
    # So are the names of distributions in the plots; and there may be no plots.
    split = inspected.report.splits[0]
    for distributions in ((Distribution("<script>&", {0: 1, 1: 2, 2: 3}),), ()):
        changed = replace(split, distributions=distributions, figures=())
        page = render_page(inspected.manifest, [], replace(inspected.report, splits=(changed,)))
        assert "script" not in (parsed := parse(page)).tags
        assert ("&lt;script&gt;&amp;" in page) == ("figure" in parsed.tags) == bool(distributions)


def test_the_page_stays_below_two_megabytes(inspected: Inspected) -> None:
    """However long examples, names and paths are."""
    files = tuple(SourceFile(f"{number:04}" * 1000, 1) for number in range(2000))
    manifest = inspected.manifest
    manifest = replace(manifest, corpus=replace(manifest.corpus, files=files))
    for tokens in (1024, 8192):
        pieces = tuple(Piece("&word<", False, "replaced", "other") for _ in range(tokens))
        long = replace(EXAMPLE, segments=(pieces, pieces), length=2 * tokens + 3)
        page = render_page(manifest, [draw(long)] * 240, inspected.report)
        assert len(page.encode()) < 2_000_000
        assert page.count("the rest is left out") >= 240
        assert page.count('class="replaced"') > 240 * 50
        assert "The other files are in dataset.json" in page

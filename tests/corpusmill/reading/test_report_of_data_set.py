"""A data set shows itself, verifies itself, and opens its other splits."""

import shutil
from html.parser import HTMLParser
from pathlib import Path

import pytest

from corpusmill import DataSet
from corpusmill.dataset.shards import open_data_set
from corpusmill.errors import UserError
from corpusmill.inspection.figures import summarize
from corpusmill.location import locate
from corpusmill.objectives.gpt import GptOptions
from tests.tools.small_datasets import OBJECTIVES, Recipe, write_dataset

HOSTILE = b"\n\n".join([b"<script>alert(1)</script> & <b onclick=x> ."] * 9)


class Tags(HTMLParser):
    """The tags and the text of a page, in which each opened tag must be closed."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: set[str] = set()
        self.text = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: object) -> None:  # noqa: ARG002
        self.open.append(tag)
        self.seen.add(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def test_a_report_has_the_figures_and_some_examples(bert: Path) -> None:
    data = DataSet(bert)
    report = data.report(2)
    summary = summarize(data.manifest)
    assert (report.findings, report.counts) == (summary.findings, data.manifest.counts)
    assert list(report.splits) == [drawn.split for drawn in report.examples[::2]]
    assert report.splits["train"].rows == len(data)
    assert f"{len(data):,} examples" in repr(report)
    assert "example 4: " in repr(report)
    assert repr(report) == str(report)
    assert data.report(0).examples == []
    with pytest.raises(UserError, match="examples=-1: it is negative"):
        data.report(-1)


def test_a_notebook_shows_figures_and_examples_of_any_objective(tmp_path: Path) -> None:
    for name in ("bert_packed", "gpt_pack", "t5"):
        write_dataset(tmp_path / name, Recipe(OBJECTIVES[name]))
        data = DataSet(tmp_path / name)
        page = Tags(data._repr_html_())
        assert not page.open
        assert f"{len(data):,}" in page.text
        assert page.text.count("train, ") == 2
        for figure in data.report(0).splits["train"].figures:
            assert figure.meaning in page.text


def test_text_of_a_corpus_is_no_markup_in_a_notebook(tmp_path: Path) -> None:
    write_dataset(
        tmp_path / "out", Recipe(GptOptions(mode="windows", max_seq_length=64), text=HOSTILE)
    )
    page = Tags(DataSet(tmp_path / "out")._repr_html_())
    assert "alert" in page.text.replace(" ", "")
    assert not page.seen & {"script", "i"}


def test_a_damaged_data_set_still_shows_its_figures(bert: Path, tmp_path: Path) -> None:
    shutil.copytree(bert, tmp_path / "out")
    data = DataSet(tmp_path / "out")
    assert data.verify() == []
    for shard in data.shards:
        path = tmp_path / "out" / shard.file
        path.write_bytes(bytes(path.stat().st_size))
    assert "masked" in Tags(data._repr_html_()).text
    assert {problem.file for problem in data.verify()} == {shard.file for shard in data.shards}


def test_a_data_set_opens_its_other_splits(bert: Path, cache_folder: Path) -> None:
    data = DataSet(bert)
    validation = data.load("validation", cache_folder=cache_folder)
    assert validation.split == "validation"
    assert len(validation) == data.manifest.splits["validation"].rows
    assert data.load().digest == data.digest
    _, manifest = open_data_set(locate(str(bert)))
    assert validation.manifest == manifest
    with pytest.raises(UserError, match="max_length"):
        data.load(max_length=3)

"""A data set or a file is exchanged while another process opens or writes it, under any name."""

from pathlib import Path
from typing import Literal

import pytest

import corpusmill.reading.data_set
from corpusmill import DataSet
from tests.tools.forked_commands import ForkedCommand
from tests.tools.growing import Growing
from tests.tools.jobs import assert_refused, digests, run_here, wait_for


@pytest.mark.parametrize("damaged", ["refuse", "skip"])
@pytest.mark.parametrize("moment", ["before the manifest", "after it"])
def test_a_reader_that_opens_during_an_exchange_has_the_old_or_the_new_one(
    moment: str, damaged: Literal["refuse", "skip"], growing: Growing, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    module, exchanged = corpusmill.reading.data_set, list[int]()
    name = "open_data_set" if moment == "before the manifest" else "check_split"
    real = getattr(module, name)

    def exchange(*arguments: object) -> object:
        if not exchanged:
            exchanged.append(1)
            run_here("drop", growing.output, "--where", "document % 3 = 0")
        return real(*arguments)

    monkeypatch.setattr(module, name, exchange)
    data = DataSet(growing.output, damaged=damaged, cache_folder=tmp_path / "cache")
    assert not data.skipped
    assert len(data) == growing.manifest().splits["train"].rows
    assert all(data[number]["input_ids"].size for number in range(len(data)))


def test_of_two_that_train_one_file_at_once_one_is_refused(
    sample: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ("train-tokenizer", "--input", sample, "--output", tmp_path / "t.json")
    outcomes = []

    def train_too(*_: object) -> None:
        outcomes.append(wait_for(ForkedCommand([*command, "--vocab-size", "400"])))

    monkeypatch.setattr("pipeline.jobs.tokenizer_training._refuse_inputs", train_too)
    run_here(*command, "--vocab-size", "300")
    assert_refused(outcomes[0], f"--output {tmp_path / 't.json'}", "another run", "Wait for it")
    assert [path.name for path in tmp_path.iterdir()] == ["t.json"]


def test_links_and_other_spellings_are_the_same_place(growing: Growing, tmp_path: Path) -> None:
    around = tmp_path / "around"
    around.symlink_to(growing.output.parent)
    before = growing.files()
    text = tmp_path / "text"
    text.write_text("A line of text .\n" * 50)
    (tmp_path / "other").symlink_to(text)
    (tmp_path / "hard").hardlink_to(text)
    for output in (text, tmp_path / "other", tmp_path / "hard"):
        train = ("train-tokenizer", "--input", text, "--output", output, "--replace")
        run_here(*train, refused=("it is the input",))
    shard = next(growing.output.glob("v1/train-*"))
    for page in (shard, tmp_path / "around" / "out" / "v1" / shard.name):
        refused = ("the file exists, and is not one that this command writes",)
        run_here("inspect", growing.output, "--html", page, refused=refused)
    assert growing.files() == before
    assert text.read_text() == "A line of text .\n" * 50


def test_a_link_in_the_place_of_a_folder_of_ours_is_not_followed(
    growing: Growing, halves: tuple[Path, Path], tmp_path: Path
) -> None:
    mine = tmp_path / "mine"
    refused = ("v1/provenance is a link there", "nothing is written or removed through links")
    (growing.output / "v1" / "provenance").rename(mine)
    (growing.output / "v1" / "provenance").symlink_to(mine)
    before = digests(mine)
    growing.build(halves[0], flags=("--replace",), refused=refused)
    growing.append(halves[1], refused=refused)
    run_here("drop", growing.output, "--where", "document % 3 = 0", refused=refused)
    assert digests(mine) == before


def test_a_page_of_ours_is_written_anew(growing: Growing, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    for _ in range(2):
        run_here("inspect", growing.output, "--html", page)
        assert page.read_text().startswith("<!DOCTYPE html>")

"""The folder that the pages' programs run in."""

import json
import shutil
import sys
from pathlib import Path

import pytest
from tokenizers import Tokenizer

from corpusmill.objectives.bert import BertOptions
from tests.conftest import CHECKOUT
from tests.tools.packages import quality_rules, quality_rules_site
from tests.tools.real_corpora import paragraphs
from tests.tools.remembered_beam import remembered_beam
from tests.tools.small_datasets import Recipe, write_dataset

__all__ = ["folder", "prepared", "quality_rules", "quality_rules_site", "remembered_beam"]


@pytest.fixture(scope="session")
def prepared(sample: Path, tokenizer_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What pages may say to have: text in some layouts, tokenizers, and a data set `out`."""
    folder = tmp_path_factory.mktemp("pages")
    for place in (folder, folder / "samples"):
        place.mkdir(exist_ok=True)
        shutil.copy(sample, place / "wiki.sample.tokens")
    texts = paragraphs(sample)
    for number in range(0, len(texts), 4):
        path = folder / "books" / f"{number:03}.txt"
        path.parent.mkdir(exist_ok=True)
        path.write_text("\n".join(texts[number : number + 4]) + "\n")
    lines = [text.replace(". ", ".\n") for text in texts]
    (folder / "corpus.txt").write_text("\n\n".join(lines) + "\n")
    records = "".join(json.dumps({"text": text}) + "\n" for text in texts)
    for name in ("filtered", "corpus"):
        (folder / name).mkdir()
    shutil.copy(folder / "corpus.txt", folder / "corpus")
    for path in (folder / "corpus.jsonl", folder / "filtered" / "00000.jsonl"):
        path.write_text(records)
    shutil.copytree(CHECKOUT / "tests" / "data" / "curated", folder, dirs_exist_ok=True)
    _write_tokenizers(folder, tokenizer_path)
    write_dataset(folder / "out", Recipe(BertOptions(max_seq_length=64, duplicates=2)))
    return folder


def _write_tokenizers(folder: Path, path: Path) -> None:
    shutil.copy(path, folder / "tokenizer.json")
    tokenizer = Tokenizer.from_file(str(path))
    ids = sorted(tokenizer.get_vocab().items(), key=lambda entry: entry[1])
    (folder / "vocab.txt").write_text("".join(f"{token}\n" for token, _ in ids))
    tokenizer.add_special_tokens(["<|endoftext|>"])
    tokenizer.save(str(folder / "gpt.json"))


@pytest.fixture
def folder(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """An empty folder to work in, and a cache that is not the user's."""
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.getbasetemp() / "cache"))
    monkeypatch.chdir(work)
    monkeypatch.setattr(sys, "path", [str(work), *sys.path])
    return work

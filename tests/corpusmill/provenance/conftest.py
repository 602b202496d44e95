"""A small data set of two sources, of JSON lines with fields."""

import json
from pathlib import Path

import pytest

from tests.tools import jobs
from tests.tools.corpus_files import split_documents


@pytest.fixture(scope="session")
def corpus(sample: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("provenance")
    documents = list(split_documents(sample))
    for name, part in (("wiki", documents[:60]), ("notes", documents[60:])):
        (folder / name).mkdir()
        lines = [
            json.dumps({"text": "\n".join(lines), "file": f"{name}-{n}", "n": n})
            for n, lines in enumerate(part)
        ]
        (folder / name / "part.jsonl").write_text("\n".join([*lines, ""]))
    return folder


@pytest.fixture(scope="session")
def data(corpus: Path, tokenizer_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data") / "out"
    sources = ("--source", *(f"{name}={corpus / name}" for name in ("wiki", "notes")))
    spread = ("--num-shards", "5", "--validation-share", "0.2", "--seed", "1")
    built = ("--tokenizer", tokenizer_path, "--output", folder, "--keep-fields", "file,n")
    jobs.run_here("bert", *sources, *built, *jobs.PAIRS, *spread)
    return folder

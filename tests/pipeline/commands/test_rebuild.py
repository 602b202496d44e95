"""A data set is built again from its manifest, and what is not as it was is found."""

import gzip
import json
import shutil
from collections.abc import Callable, Sequence
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

from corpusmill.dataset.manifest_json import seal
from corpusmill.reading.collate.collators import collator_for
from corpusmill.reading.data_set import DataSet
from tests.tools.jobs import build, digests, list_text_objectives, run_any, run_here
from tests.tools.small_limits import TINY, flags_of

FLAGS = ("--validation-share", "0.2")


@pytest.fixture(scope="module")
def corpus(sample: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A part of the sample in two files, one of them compressed, and with a reject."""
    folder = tmp_path_factory.mktemp("corpus")
    lines = sample.read_bytes().splitlines(keepends=True)
    (folder / "a.txt").write_bytes(b"".join(lines[:120]))
    (folder / "b.txt.gz").write_bytes(
        gzip.compress(b"".join(lines[120:220]) + b"Not \xff text .\n")
    )
    return folder


@pytest.fixture(scope="module")
def data_set(corpus: Path, wordpiece: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data") / "out"
    build([corpus], wordpiece, folder)
    return folder


@pytest.fixture
def altered(data_set: Path, tmp_path: Path) -> Callable[..., Path]:
    """Make a copy of the data set whose manifest tells something else."""

    def alter(**entries: Any) -> Path:
        folder = Path(shutil.copytree(data_set, tmp_path / "altered"))
        manifest = json.loads((folder / "dataset.json").read_text()) | entries
        content = json.dumps(manifest).encode()
        (folder / "dataset.json").write_bytes(content)
        (folder / "_SUCCESS").write_bytes(seal(content))
        return folder

    return alter


_PACKED = ("--segments", "packed", "--duplicates", "1", "--mask", "dynamic")


@pytest.mark.parametrize(
    ("objective", "flags"),
    [
        *((objective, ()) for objective in list_text_objectives()),
        ("bert", _PACKED),
        ("bert", ("--bin-size", "16", "--output-format", "avro")),
        ("ernie", ("--mask", "dynamic", "--output-format", "ernie-text")),
        ("gpt", ("--mode", "pack", "--max-seq-length", "64", "--order", "corpus")),
        ("gpt", ("--output-format", "megatron")),
    ],
)
def test_every_objective_gives_the_same_bytes_again(
    objective: str, flags: tuple[str, ...], corpus: Path, wordpiece: Path, tmp_path: Path
) -> None:
    first, again = tmp_path / "first", tmp_path / "again"
    build([corpus], wordpiece, first, *FLAGS, *flags, objective=objective)
    moved = shutil.copytree(corpus, tmp_path / "moved")
    # Through all levels of files, on which no byte depends.
    small = ("--range-bytes", "9999", *flags_of(TINY))
    arguments: Sequence[str | Path] = ("--input", moved, "--output", again, *small)
    outcome = run_here("rebuild", first / "dataset.json", *arguments)
    assert "have the digests of" in outcome.output
    assert "the manifests are equal" in outcome.output
    assert digests(again) == digests(first)


def test_a_joined_and_filtered_data_set_and_one_from_its_printed_options(
    corpus: Path, wordpiece: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    first, again = tmp_path / "first", tmp_path / "again"
    compared = ("--drop-overlap-with", corpus / "a.txt")
    flags = ("--mode", "stream", "--output-format", "nanogpt", "--num-shards", "4")
    build([corpus], wordpiece, first, *flags, "--drop-duplicates", *compared, objective="gpt")
    arguments = ("rebuild", first, "--input", corpus, "--output", again)
    run_here(*arguments, refused=["--drop-overlap-with", "which the manifest does not hold"])
    outcome = run_here(*arguments, *compared)
    assert "the manifests are equal" in outcome.output
    file = tmp_path / "build.yaml"
    file.write_text(run_here("config", "first").output)
    placed = ("--input", corpus, "--tokenizer", wordpiece, "--output", tmp_path / "third")
    run_here("gpt", "--config", file, *placed, *compared)
    assert digests(tmp_path / "third") == digests(first)


def test_another_input_is_refused_before_any_work(
    corpus: Path, data_set: Path, tmp_path: Path
) -> None:
    other = Path(shutil.copytree(corpus, tmp_path / "other"))
    arguments = ("rebuild", data_set, "--input", other, "--output", tmp_path / "again")
    content = (other / "a.txt").read_bytes()
    cases = [(b"x" + content[1:], "has other bytes"), (content + b"x", "bytes and has")]
    for changed, part in cases:
        (other / "a.txt").write_bytes(changed)
        run_here(*arguments, refused=["not the input of the data set", "a.txt", part])
    # The first file is not compared where it alone is larger than what is.
    size = (corpus / "a.txt").stat().st_size
    (other / "a.txt").write_bytes(b"x" + content[1:])
    exact, small = (("--limits", f"corpus.compared_bytes={size - less}") for less in (0, 1))
    run_here(*arguments, *exact, refused=["a.txt has other bytes"])
    outcome = run_here(*arguments, *small, status=1)
    assert "a.txt has other bytes" in outcome.output
    shutil.rmtree(tmp_path / "again")
    (other / "a.txt").unlink()
    (other / "c.txt").write_text("more")
    run_here(*arguments, refused=["a.txt is missing", "c.txt is new"])
    assert not (tmp_path / "again").exists()


def keep_all(_text: str, _metadata: object) -> None:
    """A filter without an entry point."""


def one_word(text: str) -> list[tuple[int, int]]:
    """A rule of words without an entry point."""
    return [(0, len(text))] if text.strip() else []


def test_a_function_that_the_manifest_names_is_called_only_if_the_user_names_it_too(
    corpus: Path, wordpiece: Path, tmp_path: Path
) -> None:
    first, here = tmp_path / "first", __name__
    functions = ("--filter", f"{here}:keep_all", "--words", f"{here}:one_word")
    build([corpus], wordpiece, first, *functions, "--whole-word-mask")
    arguments = ("rebuild", first, "--input", corpus, "--output", tmp_path / "again")
    for given, option in (
        ((), "--filter"), (functions[2:], "--filter"), (functions[:2], "--words")
    ):  # fmt: skip
        run_here(*arguments, *given, refused=[option, "code that the manifest"])
    run_here(*arguments, *functions[:2], "os:system", refused=["os:system", "not built with it"])
    assert not (tmp_path / "again").exists()
    assert "the manifests are equal" in run_here(*arguments, *functions).output


@pytest.mark.parametrize(
    ("entry", "values"),
    [
        ("filter", {"filters": [{"name": "builtins:exec", "package": None}]}),
        ("filter", {"filters": [{"name": "builtins:exec", "package": "corpusmill 1.0"}]}),
        ("filter", {"filters": [{"name": "no.such.module:f", "package": None}]}),
        ("words", {"whole_word_mask": True, "words": "os:system"}),
        ("words", {"whole_word_mask": True, "words": "subprocess:run"}),
    ],
)
def test_nothing_that_a_stranger_names_is_imported_or_called(
    entry: str, values: dict[str, Any], data_set: Path, corpus: Path, tmp_path: Path,
    altered: Callable[..., Path], monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    manifest = json.loads((data_set / "dataset.json").read_text())
    if entry == "filter":
        manifest["corpus"]["filtering"] = {"drop_duplicates": False, "evaluation": None, **values}
    else:
        manifest["objective"]["options"].update(values)
    folder = altered(**manifest)

    def refuse(*arguments: object) -> None:
        raise AssertionError(arguments)

    monkeypatch.setattr(EntryPoint, "load", refuse)
    arguments = ("rebuild", folder, "--input", corpus, "--output", tmp_path / "again")
    run_here(*arguments, refused=[f"--{entry}", "code that the manifest"])
    for command in (
        ("verify", folder), ("inspect", folder), ("config", folder),
        ("trace", folder, "--row", "0", "--input", corpus),
        ("drop", folder, "--document", "0", "--workers", "1"),
    ):  # fmt: skip
        assert run_any(*command).status in {0, 1, 2}
    DataSet(folder)[0]
    collator_for(DataSet(folder))


def test_mistakes(data_set: Path, corpus: Path, tmp_path: Path) -> None:
    place = ("--output", tmp_path / "again")
    run_here("rebuild", data_set, *place, refused=["does not tell where", "a.txt"])
    run_here("rebuild", tmp_path, "--input", corpus, *place, refused=["not a data set"])
    own = ("--input", corpus, "--output", data_set, "--replace")
    run_here("rebuild", data_set, *own, refused=["it is the data set that is built again"])
    elsewhere = ("--input", corpus, *place, "--no-wait")
    run_here("rebuild", data_set, *elsewhere, refused=["Leave it out"])


def test_another_version_is_named(
    altered: Callable[..., Path], corpus: Path, tmp_path: Path
) -> None:
    folder = altered(corpusmill_version="0.0.1")
    outcome = run_here("rebuild", folder, "--input", corpus, "--output", tmp_path / "again")
    assert "warning: corpusmill_version was 0.0.1" in outcome.output
    assert "have the digests of" in outcome.output
    assert "the manifests are equal" not in outcome.output


def test_another_result_is_a_failure(
    altered: Callable[..., Path], data_set: Path, corpus: Path, tmp_path: Path
) -> None:
    provenance = json.loads((data_set / "dataset.json").read_text())["provenance"]
    provenance["generations"][0]["layout"]["seed"] = 5
    folder = altered(seed=5, provenance=provenance)
    arguments = ("--input", corpus, "--output", tmp_path / "again")
    outcome = run_here("rebuild", folder, *arguments, status=1)
    assert "such as train-00000-of-00003.parquet" in outcome.output
    assert "possible cause: " in outcome.output

"""Neither the way a job runs nor the names of its input change a byte of a data set."""

import json
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import google_crc32c
import pytest

import pipeline.runners.local.engine as local_workers
import transforms.build
import transforms.shuffle.segments
import transforms.shuffle.trees
from tests.conftest import CHECKOUT
from tests.tools.jobs import build, digests
from tests.tools.knobs import SMALL_SIZES, knobs, small_batches

# Small ranges give every stage several bundles, and processes force workers on so small an input.
PROCESSES = ("--min-bytes-per-worker", "0", "--range-bytes", "7777")


Digests = dict[str, str]
Build = Callable[..., Digests]


@pytest.fixture(scope="module")
def corpus(sample: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sample in three files of a folder with a subfolder."""
    folder = tmp_path_factory.mktemp("corpus")
    lines = sample.read_text().splitlines(keepends=True)
    (folder / "more").mkdir()
    (folder / "b.txt").write_text("".join(lines[:200]))
    (folder / "a.txt").write_text("".join(lines[200:400]))
    # With a reject, so that its report is compared, too.
    (folder / "more" / "c.txt").write_bytes("".join(lines[400:]).encode() + b"Not \xff text .\n")
    return folder


@pytest.fixture(scope="module")
def reference(
    corpus: Path, tokenizer_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> Digests:
    """The digests of all files of a data set built in one process, with one range for each file."""
    output = tmp_path_factory.mktemp("reference") / "out"
    build([corpus], tokenizer_path, output, "--validation-share", "0.2")
    return digests(output)


@pytest.fixture
def build_again(corpus: Path, tokenizer_path: Path, output: Path) -> Build:
    def run(*flags: str, inputs: list[Path] | list[str] | None = None) -> Digests:
        flags = ("--validation-share", "0.2", *flags)
        build(inputs or [corpus], tokenizer_path, output, *flags)
        return digests(output)

    return run


def test_the_reference_is_a_whole_data_set(reference: Digests) -> None:
    copied = {"README.md", "tokenizer.json", "tokenizer_config.json"}
    written = {
        "dataset.json", "_SUCCESS", "v1/_files.json", "v1/rejects/rejects.jsonl",
        *(f"v1/root/{name}" for name in copied),
        *(f"v1/train-0000{number}-of-00003.parquet" for number in range(3)),
        "v1/validation-00000-of-00001.parquet",
        *(f"v1/provenance/{kind}-train-0000{number}-of-00003.parquet"
          for kind in ("spans", "documents") for number in range(3)),
        *(f"v1/provenance/{kind}-validation-00000-of-00001.parquet"
          for kind in ("spans", "documents")),
    }  # fmt: skip
    assert set(reference) == copied | written
    assert len({reference[name] for name in written}) == len(written)
    assert all(reference[name] == reference[f"v1/root/{name}"] for name in copied)


def test_the_manifest_has_checksums_of_the_input_and_no_path_of_this_machine(
    corpus: Path, tokenizer_path: Path, output: Path
) -> None:
    build([corpus], tokenizer_path, output)
    manifest = json.loads((output / "dataset.json").read_text())
    files = {file["path"]: int(file["crc32c"], 16) for file in manifest["corpus"]["files"]}
    names = ("a.txt", "b.txt", "more/c.txt")
    assert files == {name: google_crc32c.value((corpus / name).read_bytes()) for name in names}
    assert manifest["tokenizer"]["name"] == tokenizer_path.name
    for described in (output / "dataset.json", output / "README.md"):
        assert not any(
            str(path.parent) in described.read_text() for path in (corpus, tokenizer_path)
        )


@pytest.mark.parametrize("workers", ["1", "3"])
def test_worker_processes(workers: str, build_again: Build, reference: Digests) -> None:
    assert build_again(*PROCESSES, "--workers", workers) == reference


def test_ranges_in_this_process(build_again: Build, reference: Digests) -> None:
    assert build_again("--range-bytes", "1000") == reference


def test_all_thresholds_of_the_stages(build_again: Build, reference: Digests) -> None:
    """`test_simulated_runs` draws them, and `test_built_again` crosses them with each objective."""
    with knobs(small=True):
        assert build_again(*SMALL_SIZES) == reference


def test_trees_of_several_levels_and_little_memory(
    build_again: Build, reference: Digests, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Segments thought to be tiny make several levels of files, if a merge has few of them. No task
    # takes the candidates or the rejects of more than two others.
    sizes = ("--most-references", "2", "--fan-in", "2", "--sort-bytes", "20000")
    levels = Counter[str]()
    expand = transforms.shuffle.trees.JoinInTree.expand

    def count_levels(tree: transforms.shuffle.trees.JoinInTree, elements: Any) -> Any:
        levels[tree._tree.element.__name__] += 1
        return expand(tree, elements)

    monkeypatch.setattr(transforms.shuffle.trees.JoinInTree, "expand", count_levels)
    with knobs(smallest_segment_bytes=16 * 2**20):
        assert build_again("--range-bytes", "4444", *sizes) == reference
    assert levels == {"Segment": 3, "LinesFile": 3}


def test_however_little_is_read_and_tokenized_at_a_time(
    build_again: Build, reference: Digests
) -> None:
    with knobs(small=True, memo_bytes=2**10), small_batches(100):
        assert build_again() == reference


def test_the_way_in_which_files_are_named(
    corpus: Path, build_again: Build, reference: Digests, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(corpus)
    again = ["more/../more/c.txt", str(corpus / "?.txt"), "b.txt", "more", str(corpus / "b.txt")]
    assert build_again(inputs=again) == reference


def test_the_place_where_the_corpus_lies(
    corpus: Path, tmp_path: Path, build_again: Build, reference: Digests
) -> None:
    moved = tmp_path / "elsewhere"
    shutil.copytree(corpus, moved)
    assert build_again(inputs=[f"{moved}/**/*.txt"]) == reference


def test_another_seed_gives_other_bytes(build_again: Build, reference: Digests) -> None:
    other = build_again("--seed", "2")
    shards = [name for name in reference if "/train-" in name]
    assert len(shards) == 3
    assert all(other[name] != reference[name] for name in shards)


# A change of these digests means that data sets which exist can no longer be built again as they
# are: a change of format, of draws, or of a library that encodes. Say so where the change is
# described, raise the format version where the columns change, and write the new digests.
GOLDEN = CHECKOUT / "tests" / "data" / "golden.json"


def test_the_format_is_as_it_was(
    sample: Path, tokenizer_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Versions come from tags, and the manifest holds that of the job.
    monkeypatch.setattr("pipeline.recipe.recipe.version", lambda _: "0.1.0")
    monkeypatch.chdir(CHECKOUT)
    inputs, tokenizer = [sample.relative_to(CHECKOUT)], tokenizer_path.relative_to(CHECKOUT)
    build(inputs, tokenizer, tmp_path / "out", "--validation-share", "0.1")
    built = digests(tmp_path / "out")
    golden = json.loads(GOLDEN.read_text())
    assert {name: built[name] for name in golden} == golden


def test_more_workers_than_the_machine_can_hold(
    corpus: Path, tokenizer_path: Path, output: Path, monkeypatch: pytest.MonkeyPatch,
    reference: Digests,
) -> None:  # fmt: skip
    monkeypatch.setattr("pipeline.runners.local.engine.most_workers", lambda: 2)
    flags = ("--validation-share", "0.2", *PROCESSES, "--workers", "1000")
    outcome = build([corpus], tokenizer_path, output, *flags)
    assert "--workers 1000: 2 are used, as many as this machine's cores" in outcome.output
    assert digests(output) == reference


@pytest.mark.parametrize(
    ("cores", "memory", "workers"), [(8, 2**40, 64), (8, 2**31, 4), (None, 2**40, 8), (1, 2**20, 1)]
)
def test_workers_for_the_cores_and_the_memory(
    cores: int | None, memory: int, workers: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit = tmp_path / "memory.max"
    limit.write_text(f"{memory}\n")
    monkeypatch.setattr(local_workers, "_MEMORY_LIMITS", (str(limit), str(tmp_path / "none")))
    monkeypatch.setattr("pipeline.runners.local.engine.count_processors", lambda: cores or 1)
    monkeypatch.setattr("psutil.virtual_memory", lambda: SimpleNamespace(total=2**41))
    assert local_workers.most_workers() == workers
    limit.write_text("max\n")
    assert local_workers.most_workers() == 8 * (cores or 1)

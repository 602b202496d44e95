"""Text is added to a data set: its files stay, both are read as one, and a stopped run goes on."""

import json
import shutil
from pathlib import Path

import pytest

import transforms.commit.commit
import transforms.commit.contents
import transforms.corpus.prepare
from corpusmill.console.process import FAILURE
from corpusmill.corpus.batches import OFFSET_BITS
from corpusmill.dataset.manifest_json import seal
from corpusmill.errors import UserError
from corpusmill.reading.data_set import DataSet
from corpusmill.reading.load.loader import Loader, make_batches
from corpusmill.verification.check_data_set import verify
from tests.tools.data_files import digests_by_version
from tests.tools.growing import SHARE, Growing, check_removal, without_descriptions
from tests.tools.jobs import TWO_WORKERS, build, run_here
from tests.tools.knobs import SMALL_SIZES, knobs
from tests.tools.origins import check_provenance, list_documents
from tests.tools.table_rows import for_rows

_PACK = ("--mode", "pack", "--max-seq-length", "64")
# One kind of rows and files each; the stages know no objective.
WAYS: dict[str, tuple[str, tuple[str, ...]]] = {
    "bert": ("bert", ()),
    "bert packed": ("bert", ("--segments", "packed", "--duplicates", "1", "--mask", "dynamic")),
    "bert in the order of the corpus": ("bert", ("--order", "corpus", "--duplicates", "1")),
    "bert under other names": ("bert", ("--shard-name", "{split}.{shard}-of-{shards}.parquet")),
    "bert without duplicates": ("bert", ("--drop-duplicates",)),
    "bert, padded": ("bert", ("--padding", "max_length")),
    "bert for Google's trainer": ("bert", ("--output-format", "tfrecord")),
    "bert in Avro": ("bert", ("--output-format", "avro")),
    "ernie for its trainer": ("ernie", ("--mask", "dynamic", "--output-format", "ernie-text")),
    "gpt for Megatron": ("gpt", ("--mode", "stream", "--output-format", "megatron")),
    "gpt in MDS": ("gpt", ("--mode", "stream", "--output-format", "mds")),
    "gpt pack": ("gpt", _PACK),
    "t5": ("t5", ()),
}  # fmt: skip


@pytest.fixture(scope="module")
def appended(
    first: Growing, halves: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory
) -> Growing:
    """The data set of both halves."""
    growing = first.copy_to(tmp_path_factory.mktemp("both") / "out")
    growing.append(halves[1])
    return growing


@pytest.mark.parametrize("way", WAYS)
def test_rows_of_every_kind_grow_and_go_and_other_files_stay(
    way: str, halves: tuple[Path, Path], wordpiece: Path, tmp_path: Path
) -> None:
    objective, flags = WAYS[way]
    growing = Growing(tmp_path / "out", wordpiece, (*SHARE, *flags), objective)
    growing.build(halves[0])
    earlier, files = growing.manifest(), growing.files()
    growing.append(halves[1])
    assert verify(growing.output) == []
    later, kept = growing.manifest(), without_descriptions(files)
    # Trainers of ERNIE and streaming read lists of all shards.
    lists = {name for name in kept if name.endswith(("_filelist", "index.json"))}
    lists -= {name for name in lists if name.startswith("v1/")}
    assert {name: growing.files()[name] for name in kept.keys() - lists} == {
        name: kept[name] for name in kept.keys() - lists
    }
    assert "rejects/rejects-more1.jsonl" in later.paths
    assert later.counts["read.rejects"] == 2
    assert len(later.corpus.files) == 2
    for name, split in later.splits.items():
        before = earlier.splits[name]
        assert split.shards[: len(before.shards)] == before.shards
        assert split.rows > before.rows
        assert split.tokens > before.tokens
    for name, count in earlier.counts.items():
        assert later.counts[name] >= count
    # Rows are made of the text of their own part.
    for row in check_provenance(growing.output, *halves):
        own = {document >> OFFSET_BITS for document in row.documents}
        assert own == {1 if "-more1" in row.shard else 0}
    check_removal(growing)
    assert verify(growing.output) == []
    check_provenance(growing.output, *halves)


def test_together_they_have_the_text_of_one_build(
    halves: tuple[Path, Path], wordpiece: Path, tmp_path: Path
) -> None:
    both, whole = (Growing(tmp_path / name, wordpiece, (), "gpt") for name in ("both", "whole"))
    both.build(halves[0])
    both.append(halves[1])
    whole.build(*halves)
    splits = both.manifest().splits, whole.manifest().splits
    assert splits[0]["train"].tokens == splits[1]["train"].tokens
    counts = {name: count for name, count in both.manifest().counts.items() if count}
    # Only the second half was compared with what is there; the first was compared with nothing.
    assert counts.pop("filter.documents") == counts["read.documents"]
    assert counts == {name: count for name, count in whole.manifest().counts.items() if count}


@pytest.mark.parametrize("small", [False, True], ids=["workers", "thresholds"])
def test_neither_workers_nor_thresholds_change_a_byte(
    small: bool, growing: Growing, appended: Growing, halves: tuple[Path, Path]
) -> None:
    with knobs(small):
        flags = ("--range-bytes", "3000", *SMALL_SIZES) if small else TWO_WORKERS
        growing.append(halves[1], flags=flags)
    assert growing.files() == appended.files()


def test_a_data_set_grows_again_and_its_parts_are_what_it_was(
    first: Growing, appended: Growing, halves: tuple[Path, Path], tmp_path: Path
) -> None:
    growing = appended.copy_to(tmp_path / "out")
    growing.append(*halves, flags=("--existing", "allow"))
    assert verify(growing.output) == []
    for split in ("train", "validation"):
        whole = DataSet(growing.output, split)
        for number, part in enumerate((first, appended, growing), 1):
            same = DataSet(part.output, split)
            assert whole.first_generations(number).digest == same.digest
            assert len(whole.first_generations(number)) == len(same)
            assert len({0, *whole.first_generations(number).parts}) == number
    with pytest.raises(UserError, match="the data set has 3"):
        DataSet(growing.output).first_generations(4)


def test_a_run_goes_on_with_what_it_began_with(first: Growing, appended: Growing) -> None:
    earlier, whole = DataSet(first.output), DataSet(appended.output)

    def load(samples: DataSet) -> Loader:
        return Loader(make_batches(samples, 8, seed=3))

    loader = load(earlier)
    batches = iter(loader)
    next(batches)
    state = json.loads(json.dumps(loader.state_dict()))
    rest = [batch["input_ids"].tolist() for batch in batches]
    resumed = load(whole.first_generations(1))
    resumed.load_state_dict(state)
    assert [batch["input_ids"].tolist() for batch in resumed] == rest
    with pytest.raises(UserError, match="first_generations"):
        load(whole).load_state_dict(state)


def test_a_reader_that_is_open_reads_on(
    growing: Growing, first: Growing, halves: tuple[Path, Path], tmp_path: Path
) -> None:
    reader = DataSet(growing.output, cache_folder=tmp_path / "cache")
    row = reader[0]
    growing.append(halves[1])
    assert reader[0]["input_ids"].tolist() == row["input_ids"].tolist()
    rows = [reader[number]["input_ids"].tolist() for number in range(len(reader))]
    expected = DataSet(first.output)
    assert rows == [expected[number]["input_ids"].tolist() for number in range(len(expected))]
    assert len(DataSet(growing.output)) > len(reader)


def test_files_of_one_name_are_told_apart(
    appended: Growing, halves: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(halves[0].parent.parent)
    lines = [file.read_text(errors="replace").splitlines() for file in halves]
    offset = len(lines[0][0].encode()) + len(lines[0][1].encode()) + 40
    place = ("--file", "text", "--offset", str(offset), "--json")
    output = run_here("trace", appended.output, *place).output
    documents = [json.loads(line) for line in output.splitlines() if '"digest"' in line]
    assert len({document["document"] for document in documents}) == 2


def test_an_append_that_finds_what_is_there_adds_nothing_and_tokenizes_nothing(
    growing: Growing, first: Growing, halves: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    known = first.manifest().counts["read.documents"]
    text = f"holds the text of {known:,} of"
    parts = ("--append", text, "documents already", "--existing skip")

    def fail(*_: object) -> None:
        raise AssertionError("text is tokenized")

    with monkeypatch.context() as patch:
        patch.setattr(transforms.corpus.prepare._PrepareTask, "_spill", fail)
        growing.append(*halves, refused=parts)
    files = {name: digest for name, digest in growing.files().items() if not name.startswith("_")}
    assert files == {
        name: digest for name, digest in first.files().items() if not name.startswith("_")
    }
    assert verify(growing.output) == []
    # The refused run does not stand in the way.
    growing.append(halves[1])
    assert verify(growing.output) == []
    assert not [*growing.output.rglob("_temporary*"), *growing.output.rglob("_run.json")]


def test_known_documents_are_left_out_and_counted_or_added_once_more(
    growing: Growing, halves: tuple[Path, Path]
) -> None:
    documents = growing.manifest().counts["read.documents"]
    growing.append(*halves, flags=("--existing", "skip"))
    counts = growing.manifest().counts
    assert counts["filter.dropped.in-data-set"] == documents
    assert counts["filter.documents"] == counts["read.documents"] > 2 * documents
    assert verify(growing.output) == []
    files = growing.files()
    outcome = growing.append(halves[1], flags=("--existing", "skip"))
    assert "holds all documents of the input already; nothing is left to add" in outcome.output
    assert growing.files() == files
    growing.append(*halves, flags=("--existing", "allow"))
    assert growing.manifest().counts["tokenize.tokens"] == 2 * counts["tokenize.tokens"]
    assert verify(growing.output) == []


def test_known_documents_among_repeated_ones(
    halves: tuple[Path, Path], wordpiece: Path, tmp_path: Path
) -> None:
    growing = Growing(tmp_path / "out", wordpiece, ("--drop-duplicates",))
    growing.build(halves[0])
    known = growing.manifest().counts["read.documents"]
    twice = tmp_path / "twice"
    content = b"".join(line for file in halves for line in file.read_bytes().splitlines(True)[:-1])
    twice.write_bytes(content + halves[1].read_bytes())
    growing.append(twice, flags=("--existing", "skip"))
    counts = growing.manifest().counts
    new = counts["read.documents"] - 2 * known
    assert counts["filter.dropped.in-data-set"] == known
    assert counts["filter.dropped.duplicate"] == new / 2
    assert verify(growing.output) == []


def test_kept_fields_of_both_parts(wordpiece: Path, tmp_path: Path) -> None:
    growing = Growing(tmp_path / "out", wordpiece, ("--keep-fields", "url"))
    for number in range(2):
        file = tmp_path / f"{number}.jsonl"
        texts = ("The lighthouse keeper wrote a letter . " * 9, "The lamp was lit . " * 20)
        records = [
            {"text": f"{number} {text}", "url": f"u{number}", "date": "2020"} for text in texts
        ]
        file.write_text("".join(json.dumps(record) + "\n" for record in records))
        (growing.append if number else growing.build)(file)
    output = run_here("trace", growing.output, "--where", "url = 'u1'", "--json").output
    documents = [json.loads(line) for line in output.splitlines() if '"url"' in line]
    assert [document["file"] for document in documents] == ["1.jsonl"] * 2
    other = ("--append", "built with other options", "keep_fields")
    growing.append(tmp_path / "0.jsonl", flags=("--keep-fields", "date"), refused=other)


@for_rows(
    ("flags", "parts"),
    [
        (("--seed", "2"), ("built with other options", "seed was 1 and is 2", "corpusmill config")),
        (("--max-seq-length", "32"), ("max_seq_length was 64 and is 32",)),
        (("--validation-share", "0.1"), ("validation_share was 0.2 and is 0.1",)),
        (("--compression", "gzip"), ("compression",)),
        (("--drop-duplicates",), ("filter",)),
        (("--replace",), ("--replace: it does not go with --append",)),
        (("--no-provenance",), ("--append: it does not go with --no-provenance",)),
    ],
)
def test_other_options_are_refused_before_any_work(
    flags: tuple[str, ...], parts: tuple[str, ...], growing: Growing, halves: tuple[Path, Path]
) -> None:
    files = growing.files()
    growing.append(halves[1], flags=flags, refused=parts)
    assert growing.files() == files


def test_another_tokenizer_and_sources_are_refused(
    growing: Growing, halves: tuple[Path, Path], tokenizer_path: Path
) -> None:
    files = growing.files()
    other = Growing(growing.output, tokenizer_path)
    other.append(halves[1], refused=("--append", "tokenizer.sha256 was"))
    named = ("--source", f"books={halves[1]}", "--tokenizer", growing.tokenizer)
    place = ("--output", growing.output, "--append", *SHARE)
    run_here("bert", *named, *place, refused=("--append", "sources with names"))
    assert growing.files() == files


def test_data_sets_to_which_nothing_can_be_added(
    halves: tuple[Path, Path], wordpiece: Path, tmp_path: Path
) -> None:
    kinds: dict[str, tuple[str, tuple[str, ...], str]] = {
        "joined": ("gpt", ("--output-format", "nanogpt"), "all shards of a split are one file"),
        "untraced": ("bert", ("--no-provenance",), "built without provenance"),
    }
    for name, (objective, flags, cause) in kinds.items():
        growing = Growing(tmp_path / name, wordpiece, flags, objective)
        growing.build(halves[0])
        files = growing.files()
        again = tuple(flag for flag in flags if flag != "--no-provenance")
        Growing(tmp_path / name, wordpiece, again, objective).append(
            halves[1], refused=(f"--append {growing.output}", "nothing can be added", cause)
        )
        assert growing.files() == files
    empty = Growing(tmp_path / "empty", wordpiece)
    empty.append(halves[1], refused=("--append", "no complete data set", "Leave --append out"))
    assert not empty.output.exists()
    build([halves[0]], wordpiece, empty.output, "--existing", "skip", refused=("Give --append",))


def test_files_that_are_not_ours_stay(
    growing: Growing, appended: Growing, halves: tuple[Path, Path]
) -> None:
    shard = next(growing.output.glob("v1/train-*"))
    # The last is in the folder of the version that would be the next.
    names = {"train-more1-00000-of-00001.parquet", "v1/mine.parquet", "v2/provenance/mine"}
    for name in names:
        (growing.output / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(shard, growing.output / name)
    growing.append(halves[1])
    assert names <= growing.files().keys()
    shutil.rmtree(growing.output / "v2")
    for name in names - {"v2/provenance/mine"}:
        (growing.output / name).unlink()
    assert verify(growing.output) == []
    assert digests_by_version(growing.output) == digests_by_version(appended.output)


def test_a_data_set_without_a_tokenizer_config_gets_one(
    first: Growing, halves: tuple[Path, Path], tmp_path: Path
) -> None:
    """Those that were built before there was one are read, verified and changed as they are."""
    name = "tokenizer_config.json"
    expected = (first.output / name).read_bytes()
    for change in ("append", "drop", "foreign"):
        growing = first.copy_to(tmp_path / change / "out")
        path = growing.output / name
        path.unlink()
        (growing.output / "v1" / "root" / name).unlink()
        entries = json.loads((growing.output / "dataset.json").read_text())
        entries["files"] = [
            entry for entry in entries["files"] if not entry["file"].endswith(f"/{name}")
        ]
        content = seal(json.dumps(entries).encode())
        (growing.output / "dataset.json").write_bytes(content)
        assert verify(growing.output) == []
        assert len(DataSet(growing.output)) > 0
        if change == "drop":
            [document, *_] = list_documents(growing.output)
            run_here("drop", growing.output, "--document", str(document.document))
        else:
            if change == "foreign":
                path.write_text("mine")
            growing.append(halves[1])
        assert path.read_bytes() == expected, change
        assert verify(growing.output) == []


# An append that is stopped: the data set stays whole, and the run goes on


def fail(*_: object) -> None:
    raise RuntimeError("stopped")


def stop_at_commit(
    growing: Growing, text: Path, monkeypatch: pytest.MonkeyPatch, *flags: str
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(transforms.commit.contents, "find_imbalances", fail)
        outcome = growing.append(text, flags=flags, status=FAILURE)
    assert "without --resume it starts over" in outcome.errors


def assert_as_before(growing: Growing, first: Growing) -> None:
    """Assert that readers see the data set as it was before a run that was stopped."""
    assert growing.manifest() == first.manifest()
    assert verify(growing.output) == []


def test_what_is_finished_is_not_done_again(
    growing: Growing, halves: tuple[Path, Path], appended: Growing, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop_at_commit(growing, halves[1], monkeypatch)

    with monkeypatch.context() as patch:
        patch.setattr(transforms.corpus.prepare._PrepareTask, "_spill", fail)
        growing.append(halves[1], flags=("--resume",))
    assert digests_by_version(growing.output) == digests_by_version(appended.output)
    # The command may be repeated until it succeeds, and does nothing after that.
    outcome = growing.append(halves[1], flags=("--resume", "--existing", "allow"))
    assert "nothing is left to do, as the text has been added" in outcome.output
    assert digests_by_version(growing.output) == digests_by_version(appended.output)


def test_a_stopped_append_is_resumed_as_it_was_begun_or_started_over(
    growing: Growing,
    first: Growing,
    halves: tuple[Path, Path],
    appended: Growing,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stop_at_commit(growing, halves[1], monkeypatch)
    begun = ("this is not the run that was stopped", "start over without --resume")
    allow = ("--resume", "--existing", "allow")
    growing.append(halves[1], flags=allow, refused=(*begun, "left out and is added"))
    growing.append(halves[0], flags=("--resume",), refused=(*begun, "the input text"))
    other = ("--resume", "--fan-in", "999")
    growing.append(halves[1], flags=other, refused=(*begun, "fan_in was 1000 and is 999"))
    growing.build(halves[1], flags=("--resume",), refused=("adds to the data set", "Add --append"))
    assert_as_before(growing, first)
    growing.append(halves[1])
    assert digests_by_version(growing.output) == digests_by_version(appended.output)


def test_a_stopped_build_is_not_resumed_as_an_append(
    growing: Growing, first: Growing, halves: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(transforms.commit.contents, "find_imbalances", fail)
        growing.build(halves[1], flags=("--replace",), status=FAILURE)
    parts = ("the stopped run builds the data set", "Leave --append out")
    growing.append(halves[1], flags=("--resume",), refused=parts)
    assert_as_before(growing, first)


def test_a_stopped_append_is_not_overtaken_by_a_removal(
    growing: Growing, halves: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    stop_at_commit(growing, halves[1], monkeypatch)
    removal = ("drop", growing.output, "--where", "document % 5 = 0")
    stopped = growing.output / "v2"
    parts = ("a run was stopped that adds to the data set", "--resume", str(stopped))
    run_here(*removal, refused=parts)
    # As the message says.
    shutil.rmtree(stopped)
    run_here(*removal)
    assert verify(growing.output) == []
    assert not [*growing.output.rglob("_run.json")]


def test_text_is_added_after_a_removal_that_was_stopped(
    growing: Growing, first: Growing, halves: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(transforms.commit.commit, "commit", fail)
        run_here("drop", growing.output, "--where", "document % 5 = 0", status=FAILURE)
    assert_as_before(growing, first)
    growing.append(halves[1])
    assert verify(growing.output) == []

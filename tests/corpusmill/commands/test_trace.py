"""The command trace as a user runs it."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer

from corpusmill.commands.tracing import follow
from corpusmill.reading.data_set import DataSet
from corpusmill.reading.load.loader import Loader, make_batches
from corpusmill.reading.token_packs import TokenPacks
from corpusmill.reading.token_windows import TokenWindows
from tests.tools import jobs
from tests.tools.corpus_files import split_documents
from tests.tools.tokenizer_samples import byte_level

SHARE = ("--validation-share", "0.2")
Texts = list[str]


@pytest.fixture(scope="module")
def corpus(sample: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """JSON lines with the number of each document."""
    folder = tmp_path_factory.mktemp("corpus")
    documents = ["\n".join(lines) for lines in split_documents(sample)]
    lines = (json.dumps({"text": text, "id": n}) for n, text in enumerate(documents))
    (folder / "notes.jsonl").write_text("".join(line + "\n" for line in lines))
    return folder


@pytest.fixture(scope="module")
def data(corpus: Path, tokenizer_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bert") / "out"
    jobs.build([corpus], tokenizer_path, folder, *SHARE, "--keep-fields", "id")
    return folder


@pytest.fixture(scope="module")
def stream(sample: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("gpt")
    (folder / "tokenizer.json").write_text(byte_level())
    own = ("--document-rule", "wikitext")
    tokenizer = folder / "tokenizer.json"
    jobs.build([sample], tokenizer, folder / "out", *own, objective="gpt")
    return folder / "out"


def trace(folder: Path, *flags: str | Path) -> list[dict[str, Any]]:
    output = jobs.run_here("trace", folder, *flags, "--json").output
    return [json.loads(line) for line in output.splitlines()]


def read(corpus: Path) -> Texts:
    lines = (corpus / "notes.jsonl").read_text().splitlines()
    return [json.loads(line)["text"] for line in lines]


def test_a_row_is_shown_with_its_documents_and_its_text(
    data: Path, corpus: Path, tokenizer_path: Path
) -> None:
    texts, tokenizer = read(corpus), Tokenizer.from_file(str(tokenizer_path))
    examples = DataSet(data, "validation")
    for row in trace(data, "--split", "validation", "--input", corpus, "--row", "0", "5", "9"):
        assert row["split"] == "validation"
        for document in row["documents"]:
            number = int(document["fields"]["id"])
            assert document["file"] == "notes.jsonl"
            with (corpus / "notes.jsonl").open("rb") as file:
                file.seek(document["place"])
                assert json.loads(file.read(document["length"]))["id"] == number
            own = [span for span in row["spans"] if span["document"] == document["document"]]
            assert all(span["text"] in texts[number] for span in own)
        # A piece of a word that a span begins with is tokenized in another way by itself.
        words = " ".join(span["text"] for span in row["spans"]).split()
        decoded = tokenizer.decode(jobs.unmask(examples[row["row"]]))
        assert "".join(words[1:-1]).lower() in "".join(decoded.split()).lower()
    shown = jobs.run_here("trace", data, "--row", "5", "--input", corpus).output
    assert shown.startswith("train row 5: v1/train-00000-of-00003.parquet, row 5")
    assert "notes.jsonl at " in shown
    assert ", id=" in shown


def test_rows_of_a_shard_are_numbered_from_its_beginning(data: Path) -> None:
    name = "train-00001-of-00003.parquet"
    first = DataSet(data).shard_sizes[0]
    by_number = trace(data, "--shard", "1", "--row", "2", "--no-text")
    for named in (name, f"v1/{name}"):
        assert by_number == trace(data, "--shard", named, "--row", "2", "--no-text")
    assert by_number == trace(data, "--row", str(first + 2), "--no-text")
    assert (by_number[0]["shard"], by_number[0]["shard_row"]) == (f"v1/{name}", 2)


def samples_of(rows: Sequence[dict[str, Any]]) -> list[list[int]]:
    """Return the samples of each rank."""
    ranks = sorted({row["rank"] for row in rows})
    return [
        list(dict.fromkeys(row["sample"] for row in rows if row["rank"] == rank)) for rank in ranks
    ]


def decode(rows: Sequence[dict[str, Any]], data: Path) -> list[list[int]]:
    return [DataSet(data)[row["row"]]["input_ids"].tolist() for row in rows]


@pytest.mark.parametrize("drop_last", [False, True])
def test_a_step_is_what_a_loader_read(drop_last: bool, data: Path, tmp_path: Path) -> None:
    world, size, seed, steps = 2, 6, 11, 5
    samples, batches = DataSet(data), []
    for rank in range(world):
        read = make_batches(samples, size, seed=seed, drop_last=drop_last)
        loader = Loader(read, rank, world, prefetch_factor=0)
        for _, batch in zip(range(steps), loader, strict=False):
            last = batch
        batches.append(last)
        state = loader.state_dict()
    (tmp_path / "json").write_text(json.dumps({"model": [1.5], "reader": state}))
    torch.save({"model": {"weight": torch.zeros(3)}, "reader": state}, tmp_path / "torch")
    run = ["--batch-size", str(size), "--world-size", str(world), "--no-text"]
    run += ["--drop-last"] if drop_last else []
    rows = trace(data, *run, "--seed", str(seed), "--step", str(steps - 1))
    assert {row["step"] for row in rows} == {steps - 1}
    for rank, batch in enumerate(batches):
        own = [row for row in rows if row["rank"] == rank]
        lengths = batch["attention_mask"].sum(axis=1)
        read_here = [ids[:n].tolist() for ids, n in zip(batch["input_ids"], lengths, strict=True)]
        assert decode(own, data) == read_here
    for form in ("json", "torch"):
        by_state = trace(data, *run, "--state", tmp_path / form, "--rank", "1")
        assert by_state == [row for row in rows if row["rank"] == 1]


def test_the_windows_of_a_step_are_cut_from_their_rows(stream: Path, sample: Path) -> None:
    tokenizer = Tokenizer.from_file(str(stream.parent / "tokenizer.json"))
    windows = TokenWindows(DataSet(stream), 48)
    batch = next(iter(Loader(make_batches(windows, 4, seed=3), prefetch_factor=0)))
    flags = ("--context-len", "48", "--batch-size", "4", "--seed", "3", "--step", "0")
    rows = trace(stream, *flags, "--input", sample)
    [samples] = samples_of(rows)
    assert len(samples) == 4
    text = sample.read_text()
    for sample_number, window in zip(samples, batch["input_ids"], strict=True):
        own = [row for row in rows if row["sample"] == sample_number]
        spans = [span for row in own for span in row["spans"]]
        special = tokenizer.token_to_id("<|endoftext|>")
        example = windows[sample_number]
        whole = [*example["input_ids"].tolist(), int(example["targets"][-1])]
        assert sum(span["tokens"] for span in spans) == sum(token != special for token in whole)
        assert whole[: len(window)] == window.tolist()
        assert all(span["text"].strip() in text for span in spans)
        decoded = "".join(tokenizer.decode(whole).split())
        assert "".join("".join(span["text"].split()) for span in spans) == decoded


@pytest.mark.parametrize("begin_of_text", ["False", "True"])
def test_packed_rows_are_traced_to_the_tokens_that_they_hold(
    begin_of_text: str, stream: Path, sample: Path, tmp_path: Path
) -> None:
    tokenizer_path, data = stream.parent / "tokenizer.json", tmp_path / "out"
    flags = ("--document-rule", "wikitext", "--begin-of-text", begin_of_text)
    jobs.build([sample], tokenizer_path, data, *flags, objective="gpt")
    tokenizer = Tokenizer.from_file(str(tokenizer_path))
    data_set, file = DataSet(data), tmp_path / "packs"
    bounds = data_set.manifest.objective.bounds_of_text
    assert bounds
    assert len(bounds[0]) == (begin_of_text == "True")
    special = {*bounds[0], *bounds[1]}
    packs = TokenPacks(data_set, 48, file)
    length = ("--max-seq-length", "48", "--packs-file", file)
    batch = next(iter(Loader(make_batches(packs, 4, seed=3), prefetch_factor=0)))
    rows = trace(data, *length, "--batch-size", "4", "--seed", "3", "--step", "0", "--no-text")
    [samples] = samples_of(rows)
    for number, ids in zip(samples, batch["input_ids"].tolist(), strict=True):
        row = packs[number]["input_ids"].tolist()
        assert ids[: len(row)] == row
    wanted = [len(packs) - 1, *samples]
    rows = trace(data, *length, "--input", sample, "--row", *map(str, wanted))
    assert list(dict.fromkeys(row["sample"] for row in rows)) == wanted
    for number in wanted:
        row = packs[number]["input_ids"].tolist()
        spans = [span for each in rows if each["sample"] == number for span in each["spans"]]
        assert sum(span["tokens"] for span in spans) == sum(token not in special for token in row)
        decoded = "".join(tokenizer.decode(row).split())
        assert "".join("".join(span["text"].split()) for span in spans) == decoded


def test_windows_are_traced_by_their_numbers(stream: Path) -> None:
    windows = TokenWindows(DataSet(stream), 48)
    last = len(windows) - 1
    rows = trace(stream, "--context-len", "48", "--row", "0", str(last), "--no-text")
    special = int(DataSet(stream)[0]["input_ids"][-1])
    for number in (0, last):
        window = [*windows[number]["input_ids"].tolist(), int(windows[number]["targets"][-1])]
        spans = [span for row in rows if row["sample"] == number for span in row["spans"]]
        assert sum(span["tokens"] for span in spans) == sum(token != special for token in window)
    message = f"Give 0 to {last}"
    flags = ("--context-len", "48", "--row")
    jobs.run_here("trace", stream, *flags, str(last + 1), refused=[message])
    jobs.run_here("trace", stream, *flags, "-1", refused=[message])


def test_a_document_is_found_by_its_place_and_by_a_condition(data: Path, corpus: Path) -> None:
    content = (corpus / "notes.jsonl").read_bytes()
    offset = content.index(b"\n") + 20
    by_place = trace(data, "--file", "notes.jsonl", "--offset", str(offset))
    assert by_place[0]["fields"] == {"id": "1"}
    by_id = trace(data, "--document", str(by_place[0]["document"]))
    assert by_id == by_place == trace(data, "--where", "id = '1'")
    rows = [row for row in by_id if "row" in row]
    assert rows
    split = rows[0]["split"]
    numbers = range(len(DataSet(data, split)))
    every = trace(data, "--split", split, "--no-text", "--limit", "0", "--row", *map(str, numbers))
    holding = [
        row["row"] for row in every
        if by_place[0]["document"] in [document["document"] for document in row["documents"]]
    ]  # fmt: skip
    assert [row["row"] for row in rows if row["split"] == split] == holding


def test_the_steps_that_read_a_document(data: Path) -> None:
    flags = ("--batch-size", "6", "--world-size", "2", "--seed", "11")
    found = trace(data, "--where", "split = 'train' AND tokens > 150", *flags)
    readings = [(row["row"], one) for row in found if "row" in row for one in row["read"]]
    assert len(readings) > 8
    for row, reading in readings[:: len(readings) // 8]:
        step = trace(data, *flags, "--step", str(reading["step"]), "--no-text")
        [own] = [each for each in step if each["row"] == row]
        assert own["rank"] == reading["rank"]
    shown = jobs.run_here("trace", data, "--where", "tokens > 150", "--limit", "0", *flags).output
    assert f"epoch 0, step {readings[0][1]['step']:,}, rank {readings[0][1]['rank']}" in shown
    none = jobs.run_here("trace", data, "--where", "id = 'none'").output
    assert none == "no document of the data set matches\n"
    assert trace(data, "--where", "id = 'none'") == []


def test_text_that_changed_or_is_gone_is_told(data: Path, corpus: Path, tmp_path: Path) -> None:
    changed = tmp_path / "changed"
    changed.mkdir()
    content = (corpus / "notes.jsonl").read_bytes().replace(b" the ", b" one ")
    (changed / "notes.jsonl").write_bytes(content)
    [row] = trace(data, "--row", "5", "--input", changed)
    assert row["missing"] == "notes.jsonl is not what it was when the data set was built"
    assert row["documents"]
    (tmp_path / "empty").mkdir()
    shown = jobs.run_here("trace", data, "--row", "5", "--input", tmp_path / "empty").output
    assert "no text: notes.jsonl was not found in" in shown
    assert "notes.jsonl at " in shown


MISTAKES: dict[str, tuple[str, ...]] = {
    "nothing says what to trace": (),
    "it is not clear what to trace": ("--row", "1", "--document", "7"),
    "train has": ("--row", "999999"),
    "Give 0 to": ("--row", "-1"),
    "has the shards 0 to 2": ("--row", "1", "--shard", "9"),
    "from v1/train-00000-of-00003.parquet on": ("--row", "1", "--shard", "other"),
    "it needs --row": ("--document", "7", "--shard", "1"),
    "it needs --batch-size": ("--step", "3"),
    "epoch 0 has": ("--step", "99999", "--batch-size", "4"),
    "step must not be negative": ("--step", "-1", "--batch-size", "4"),
    "--batch-size 0": ("--step", "1", "--batch-size", "0"),
    "the run has 1 rank": ("--step", "1", "--batch-size", "4", "--rank", "1"),
    "world_size must": ("--step", "1", "--batch-size", "4", "--world-size", "0"),
    "it needs --offset": ("--file", "notes.jsonl"),
    "it needs --file": ("--offset", "0"),
    "0 files of the corpus have this name": ("--file", "other.jsonl", "--offset", "1"),
    "it may be a title": ("--file", "notes.jsonl", "--offset", "999999999"),
    "--offset 9223372036854775808": ("--file", "notes.jsonl", "--offset", "9223372036854775808"),
    "--offset -1": ("--file", "notes.jsonl", "--offset", "-1"),
    "the data set holds no document 7": ("--document", "7"),
    "holds no document 99999999999999999": ("--document", "99999999999999999"),
    "--document -7": ("--document", "-7"),
    "--document 99999999999999999999": ("--document", "99999999999999999999"),
    "DuckDB refuses the condition": ("--where", "nothing = 1"),
    "Its columns are document": ("--where", "tokens >"),
    "--limit -1": ("--row", "1", "--limit", "-1"),
    "--epoch -1": ("--step", "1", "--batch-size", "4", "--epoch", "-1"),
    "window must": ("--step", "1", "--batch-size", "4", "--window", "0"),
    "never so many": ("--step", "1", "--batch-size", "4", "--window", str(2**63)),
    "lanes must": ("--step", "1", "--batch-size", "4", "--lanes", "0"),
    "seed=-1": ("--step", "1", "--batch-size", "4", "--seed", "-1"),
    "and not of a token stream": ("--step", "1", "--batch-size", "4", "--context-len", "8"),
    "--context-len": ("--document", "0", "--batch-size", "4", "--context-len", "8"),
    "--max-seq-length": ("--document", "0", "--batch-size", "4", "--max-seq-length", "8"),
    "its examples are of bert": ("--row", "1", "--max-seq-length", "8"),
    "--max-seq-length 8: it": ("--row", "1", "--max-seq-length", "8", "--context-len", "8"),
    "--packs-file packs: it needs --max-seq-length": ("--row", "1", "--packs-file", "packs"),
    "it does not go with": ("--row", "1", "--shard", "1", "--context-len", "8"),
    "No such file": ("--state", "missing.json", "--batch-size", "4"),
    "has train, validation": ("--row", "1", "--split", "test"),
}


def test_each_mistake_gives_one_message(data: Path, tmp_path: Path) -> None:
    for message, flags in MISTAKES.items():
        jobs.run_here("trace", data, *flags, refused=[message])
    jobs.run_here("trace", tmp_path / "none", "--row", "0", refused=["there is no such folder"])


def test_files_that_hold_no_state_of_the_data_set_are_refused(data: Path, tmp_path: Path) -> None:
    loader = Loader(make_batches(DataSet(data, "validation"), 4), prefetch_factor=0)
    state, unsafe = tmp_path / "state", "it is neither JSON nor a file that torch loads safely"
    for content, message in {
        b"[1, 2]": "it holds no state of a reader",
        b"\x80\x04garbage": unsafe,
        b"cos\nsystem\n(S'touch exploded'\ntR.": unsafe,
        json.dumps(loader.state_dict()).encode(): "it belongs to the samples",
    }.items():
        state.write_bytes(content)
        jobs.run_here("trace", data, "--state", state, "--batch-size", "4", refused=[message])
        assert not Path("exploded").exists()


def test_items_are_counted_on_a_terminal_alone(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for is_terminal in (False, True):
        with monkeypatch.context() as patch:
            patch.setenv("FORCE_COLOR" if is_terminal else "NO_COLOR", "1")
            patch.setenv("TTY_COMPATIBLE", "1" if is_terminal else "0")
            assert list(follow(iter("abc"), 3, "letters read")) == ["a", "b", "c"]
        output = capsys.readouterr()
        assert output.out == ""
        assert ("letters read" in output.err and "3/3" in output.err) == is_terminal
        assert is_terminal or output.err == ""

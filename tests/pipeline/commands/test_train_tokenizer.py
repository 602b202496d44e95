"""The command that trains a tokenizer: its files, its sample, what it says and what it refuses."""

import gzip
import json
import re
from dataclasses import fields
from pathlib import Path
from typing import Any, NoReturn, get_type_hints

import pytest
from tokenizers import Tokenizer, models

import transforms.corpus.count_words
from corpusmill.console.process import FAILURE, USER_ERROR
from corpusmill.tokenization.sentence_tokenizer import SentenceTokenizer
from corpusmill.tokenization.sources.read import read_tokenizer
from corpusmill.tokenization.training.models import MODELS
from pipeline.commands.train_tokenizer import GivenOptions
from tests.conftest import read_local
from tests.tools.forked_commands import show_on_terminal
from tests.tools.jobs import (
    SMALL_RANGES,
    TWO_WORKERS,
    Outcome,
    build,
    leftovers,
    read_manifest_json,
    run_here,
)
from tests.tools.knobs import SMALL_SIZES, knobs
from tests.tools.lazily import LazyModule
from tests.tools.table_rows import for_rows
from tests.tools.tokenizer_samples import SPECIAL, encode_with

transformers = LazyModule("transformers")

SIZES = {"wordpiece": "700", "bpe": "700", "wordlevel": "500", "unigram": "700"}
TEXT = "The river 's naïve Café , <unk> [MASK] two  spaces\tand 株 ; \u00b4 \ufb01ne , it is ."


def train(corpus: Path, output: Path, *flags: str | Path, **end: Any) -> Outcome:
    return run_here("train-tokenizer", "--input", corpus, "--output", output, *flags, **end)


@pytest.fixture(scope="module")
def trained(sample: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder, files = tmp_path_factory.mktemp("tokenizers"), {}
    for model, size in SIZES.items():
        files[model] = folder / model / "tokenizer.json"
        flags = ("--model", model, "--vocab-size", size, "--save-model", folder / model / "model")
        with knobs(small=True):
            outcome = train(sample, files[model], *flags, *SMALL_SIZES)
        assert f"{model} tokenizer with {size} tokens" in outcome.output
        for name in MODELS[model].files:
            assert name in outcome.output
    return files


@pytest.mark.parametrize("model", SIZES)
def test_transformers_loads_it_and_gives_the_same_ids(
    model: str, trained: dict[str, Path], sample: Path
) -> None:
    own = Tokenizer.from_file(str(trained[model]))
    theirs = transformers.PreTrainedTokenizerFast(tokenizer_file=str(trained[model]))
    own.no_padding()
    for line in [TEXT, *sample.read_text("utf-8").splitlines()[:200]]:
        ids = own.encode(line).ids
        assert theirs(line)["input_ids"] == ids
        assert theirs.convert_ids_to_tokens(ids) == [own.id_to_token(number) for number in ids]
    assert len(theirs) == own.get_vocab_size() == int(SIZES[model])


@pytest.mark.parametrize("model", SIZES)
def test_the_models_files_are_those_of_the_library(model: str, trained: dict[str, Path]) -> None:
    folder = trained[model].parent / "model"
    assert leftovers(folder) == sorted(MODELS[model].files)
    vocabulary = Tokenizer.from_file(str(trained[model])).get_vocab(with_added_tokens=False)
    paths = [str(folder / name) for name in MODELS[model].files]
    if model == "unigram":
        pieces = json.loads(Path(paths[0]).read_text("utf-8"))["vocab"]
        assert {piece: place for place, (piece, _) in enumerate(pieces)} == vocabulary
        return
    kinds: dict[str, Any] = {
        "wordpiece": models.WordPiece,
        "bpe": models.BPE,
        "wordlevel": models.WordLevel,
    }
    unknown = {"wordpiece": "[UNK]", "wordlevel": "<|unk|>"}
    arguments = {"unk_token": unknown[model]} if model in unknown else {}
    loaded = Tokenizer(kinds[model].from_file(*paths, **arguments))
    assert loaded.get_vocab() == vocabulary


def test_a_job_reads_it(trained: dict[str, Path], sample: Path, tmp_path: Path) -> None:
    for model, size in SIZES.items():
        file = read_tokenizer(str(trained[model]), read_local)
        assert file.vocab_size == int(size)
        assert SentenceTokenizer(file.json, file.token_dtype) is not None
    build([sample], trained["bpe"], tmp_path / "out")


def test_text_is_read_as_the_objective_reads_it(tmp_path: Path) -> None:
    corpus, output = tmp_path / "code.jsonl", tmp_path / "t.json"
    record = {"text": "def f(x):\n    if x:\n        return x\n\n    return 1\n"}
    corpus.write_text((json.dumps(record) + "\n") * 9)
    table = {
        "--for gpt": True, "--for chat": True, "--for t5": True, "--model bpe": False,
        "--for gpt --sentence-rule line": False, "--model bpe --sentence-rule document": True,
        "--for bert --sentence-rule document": False, "--for ernie --model bpe": False,
    }  # fmt: skip
    found = {}
    for flags in table:
        train(corpus, output, *flags.split(), "--vocab-size", "400", "--replace")
        tokens = Tokenizer.from_file(str(output)).get_vocab()
        found[flags] = not {"\n", "\u010a\u0120\u0120\u0120"}.isdisjoint(tokens)
    assert found == table


def test_a_sample_is_the_same_however_the_corpus_is_read(sample: Path, tmp_path: Path) -> None:
    packed = tmp_path / "text.gz"
    packed.write_bytes(gzip.compress(sample.read_bytes()))
    flags = ("--model", "wordlevel", "--sample", "0.5", "--seed")
    texts = []
    for corpus in (sample, packed):
        output = tmp_path / f"{corpus.name}.json"
        outcome = train(corpus, output, *flags, "3")
        assert "a sample: 59 of 105 documents" in outcome.output
        texts.append(output.read_bytes())
    assert texts[0] == texts[1]
    other = tmp_path / "other.json"
    train(sample, other, *flags, "4")
    assert other.read_bytes() != texts[0]


def test_a_sample_of_bytes_is_a_share_of_the_corpus(sample: Path, tmp_path: Path) -> None:
    half, flags = str(sample.stat().st_size // 2), ("--model", "wordlevel", "--sample-bytes")
    outcome = train(sample, tmp_path / "a.json", *flags, half)
    sampled = int(outcome.output.partition("a sample: ")[2].split(" ")[0])
    assert 30 < sampled < 75
    outcome = train(sample, tmp_path / "b.json", *flags, "1MB")
    assert "a sample" not in outcome.output


@pytest.mark.parametrize("way", [(), ("--workers", "1", "--min-bytes-per-worker", "0")])
def test_words_that_are_left_out_are_said(
    way: tuple[str, ...], sample: Path, tmp_path: Path
) -> None:
    flags = ("--model", "wordlevel", "--max-distinct-bytes")
    outcome = train(sample, tmp_path / "few.json", *flags, "5000", *way)
    [line] = [line for line in outcome.output.splitlines() if line.startswith("trained on ")]
    assert re.fullmatch(
        r"trained on \d+ of \d,\d{3} distinct words, the most frequent \(--max-distinct-words and "
        r"--max-distinct-bytes\)",
        line,
    )
    tokens = json.loads((tmp_path / "few.json").read_text())["model"]["vocab"]
    assert 3000 < sum(len(token.encode()) for token in tokens) < 6000
    outcome = train(sample, tmp_path / "all.json", *flags, "1000000", *way)
    assert "trained on" not in outcome.output


def test_counts_that_are_divided_are_said(sample: Path, tmp_path: Path) -> None:
    flags = ("--model", "unigram", "--vocab-size", "500", "--max-trained-bytes")
    outcome = train(sample, tmp_path / "few.json", *flags, "20000")
    [line] = [line for line in outcome.output.splitlines() if line.startswith("trained with")]
    assert re.fullmatch(
        r"trained with counts of words divided by \d\.\d\d \(--max-trained-bytes\)", line
    )
    outcome = train(sample, tmp_path / "all.json", *flags, "1000000")
    assert "trained with" not in outcome.output
    assert (tmp_path / "few.json").read_bytes() != (tmp_path / "all.json").read_bytes()


def test_special_tokens_are_numbered_in_the_given_order(sample: Path, tmp_path: Path) -> None:
    output = tmp_path / "tokenizer.json"
    special = ("[MASK]", "[SEP]", "<x>", "[CLS]", "[UNK]", "[PAD]")
    train(
        sample, output, "--vocab-size", "300", "--special-tokens", *special,
        "--normalizers", "nfkc", "strip-accents", "--no-lowercase",
    )  # fmt: skip
    tokenizer = Tokenizer.from_file(str(output))
    assert [tokenizer.token_to_id(token) for token in special] == list(range(6))
    assert tokenizer.encode("<x>").tokens == ["[CLS]", "<x>", "[SEP]"]
    assert tokenizer.normalizer.normalize_str("Caf\u00e9 \ufb01") == "Cafe fi"


def test_a_smaller_vocabulary_is_said(sample: Path, tmp_path: Path) -> None:
    outcome = train(sample, tmp_path / "t.json", "--model", "bpe", "--vocab-size", "60000")
    [line] = [line for line in outcome.output.splitlines() if line.startswith("warning: ")]
    assert "fewer than --vocab-size 60,000" in line
    outcome = train(sample, tmp_path / "t.json", "--model", "wordlevel", "--replace")
    assert "warning" not in outcome.output


def test_lines_that_cannot_be_read_are_said(tmp_path: Path) -> None:
    corpus = tmp_path / "text"
    corpus.write_bytes(b"good words\n\xff\xfe bad\n\xff worse\n")
    outcome = train(corpus, tmp_path / "t.json", "--model", "wordlevel")
    assert "2 invalid-utf-8" in outcome.output


@pytest.mark.parametrize("way", [(), ("--workers", "1", "--min-bytes-per-worker", "0")])
def test_files_that_end_early_are_named(way: tuple[str, ...], sample: Path, tmp_path: Path) -> None:
    whole = gzip.compress(sample.read_bytes())
    corpus = tmp_path / "texts"
    corpus.mkdir()
    (corpus / "a.gz").write_bytes(whole)
    outcome = train(corpus, tmp_path / "t.json", "--vocab-size", "500", *way)
    assert "warning" not in outcome.output
    (corpus / "b.gz").write_bytes(whole[: len(whole) // 2])
    outcome = train(corpus, tmp_path / "t.json", "--vocab-size", "500", "--replace", *way)
    [line] = [line for line in outcome.output.splitlines() if line.startswith("warning: ")]
    assert "1 of 2 files could not be read to the end" in line
    assert f"b.gz ({len(whole) // 2:,} bytes)" in line


@pytest.fixture
def sources(sample: Path, tmp_path: Path) -> Path:
    lines = sample.read_text("utf-8").splitlines(keepends=True)
    (tmp_path / "a.txt").write_text("".join(lines[:200]))
    texts = [line.strip() for line in lines[200:] if line.strip(" =\n")]
    rows = [json.dumps({"body": text}) for text in texts if not text.startswith("=")]
    (tmp_path / "b.jsonl").write_text("\n".join(rows))
    return tmp_path


def train_sources(output: Path, *flags: str | Path) -> tuple[bytes, str]:
    outcome = run_here("train-tokenizer", "--output", output, "--replace", *flags)
    return output.read_bytes(), outcome.output


@pytest.mark.parametrize("model", SIZES)
def test_words_of_a_source_count_as_often_as_it_is_taken(model: str, sources: Path) -> None:
    """Also by several workers, and as if its files were there so many times."""
    for number in range(3):
        (sources / f"copy{number}.txt").write_bytes((sources / "a.txt").read_bytes())
    rows = map(json.loads, (sources / "b.jsonl").read_text().splitlines())
    (sources / "b.txt").write_text("\n\n".join(row["body"] for row in rows))
    flags = ("--model", model, "--vocab-size", SIZES[model])
    files = [*sources.glob("copy*.txt"), sources / "b.txt"]
    expected, _ = train_sources(sources / "0.json", *flags, "--input", *files)
    given = (f"books={sources}/a.txt@3", f"web={sources}/b.jsonl;text-field=body")
    for way in ((), TWO_WORKERS):
        content, printed = train_sources(sources / "1.json", *flags, "--source", *given, *way)
        assert content == expected, way
        assert "a sample" not in printed
    once = [value.replace("@3", "") for value in given]
    assert train_sources(sources / "2.json", *flags, "--source", *once)[0] != expected


def test_of_a_source_that_is_taken_in_part_the_documents_of_a_build_count(sources: Path) -> None:
    given = (f"a={sources}/a.txt@1.5", f"b={sources}/b.jsonl@0.3;text-field=body")
    rules = ("--document-rule", "blank-lines", "--sentence-rule", "document")
    flags = ("--seed", "7", "--source", *given, *rules)
    bpe = ("--model", "bpe", "--vocab-size", "400", *flags)
    trained, printed = train_sources(sources / "0.json", *bpe)
    assert train_sources(sources / "1.json", *bpe, *TWO_WORKERS)[0] == trained
    made = ("--tokenizer", sources / "0.json", "--output", sources / "out", *flags)
    run_here("gpt", *made, "--end-of-text", "False", "--num-shards", "2")
    counts = read_manifest_json(sources / "out")["counts"]
    kept, read = counts["tokenize.documents"], counts["read.documents"]
    assert f"a sample: {kept} of {read} documents" in printed
    assert kept < read < counts["tokenize.copies"] + counts["filter.dropped.not-drawn"]


FILTERS = """
def short(text, metadata):
    return "too-short" if len(text) < 40 else None

def everything(text, metadata):
    return "unwanted"
"""


@pytest.fixture
def repeated(sample: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Texts, of which some are short, equal to others, or nearly; `rows.jsonl` has them."""
    (tmp_path / "filters_of_training.py").write_text(FILTERS)
    monkeypatch.syspath_prepend(tmp_path)
    lines = [line.strip() for line in sample.read_text("utf-8").splitlines() if line.strip()]
    texts = [*lines, *lines[20:60], "tiny", *(f"{line} indeed" for line in lines[:40])]
    (tmp_path / "rows.jsonl").write_text("\n".join(json.dumps({"text": one}) for one in texts))
    (tmp_path / "evaluation.txt").write_text("\n".join(lines[70:90]))
    return texts


def test_documents_are_left_out_as_a_build_leaves_them_out(
    repeated: list[str], tmp_path: Path
) -> None:
    flags: list[str | Path] = ["--input", tmp_path / "rows.jsonl", "--drop-duplicates"]
    flags += ["--filter", "filters_of_training:short"]
    bpe = ("--model", "bpe", "--vocab-size", "400")
    trained, printed = train_sources(tmp_path / "0.json", *bpe, *flags)
    kept = [text for text in dict.fromkeys(repeated) if len(text) >= 40]
    duplicates = sum(len(text) >= 40 for text in repeated) - len(kept)
    assert f"{duplicates} duplicate" in printed
    (tmp_path / "kept.jsonl").write_text("\n".join(json.dumps({"text": text}) for text in kept))
    kept_flags = ("--input", tmp_path / "kept.jsonl")
    assert train_sources(tmp_path / "1.json", *bpe, *kept_flags)[0] == trained
    flags += ["--drop-near-duplicates", "0.8", "--drop-overlap-with", tmp_path / "evaluation.txt"]
    expected = train_sources(tmp_path / "0.json", *bpe, *flags)
    assert train_sources(tmp_path / "0.json", *bpe, *flags, *TWO_WORKERS) == expected
    _, printed = expected
    made = ("--tokenizer", tmp_path / "0.json", "--output", tmp_path / "out", "--num-shards", "1")
    run_here("gpt", *made, *flags)
    counts = read_manifest_json(tmp_path / "out")["counts"]
    dropped, read = counts["filter.dropped"], counts["read.documents"]
    assert f"left out: {dropped} of {read} documents (" in printed
    for why in ("duplicate", "too-short", "near-duplicate", "overlap"):
        assert f"{counts[f'filter.dropped.{why}']} {why}" in printed


def test_filters_that_cannot_be_or_leave_nothing_are_refused(
    repeated: list[str], tmp_path: Path
) -> None:
    for flags, part in (
        (("--filter", "nowhere:no"), "--filter nowhere:no"),
        (("--near-duplicate-bands", "2"), "it needs --drop-near-duplicates"),
        (("--drop-overlap-with", "nowhere.txt"), "--drop-overlap-with nowhere.txt: no such file"),
        (
            ("--filter", "filters_of_training:everything", "--drop-duplicates"),
            f"none of the {len(repeated)} documents is left ({len(repeated)} unwanted)",
        ),
    ):
        train(tmp_path / "rows.jsonl", tmp_path / "t.json", *flags, refused=[part])
        assert not (tmp_path / "t.json").exists()


def test_sources_that_cannot_be_are_refused(sources: Path) -> None:
    text = sources / "a.txt"
    for flags, part in (
        (("--source", str(text)), "it is not of the form NAME=PATH"),
        (("--source", f"a={text}", "--input", text), "it does not go with --input"),
        (("--source", f"a={text}@0.0001"), "--source a@0.0001: the sample has none of the"),
        ((), "--input: it is missing. Name at least one file, glob or folder, or sources with"),
    ):
        run_here("train-tokenizer", "--output", sources / "t.json", *flags, refused=[part])


@for_rows(
    ("flags", "parts"),
    [
        (("--dropout", "0.1"), ("--dropout with --model wordpiece", "have it: bpe")),
        (("--model", "bpe", "--lowercase"), ("--lowercase with --model bpe", "wordpiece")),
        (("--model", "bpe", "--dropout", "2"), ("--dropout 2",)),
        (("--model", "bpe", "--vocab-size", "260"), ("--vocab-size 260", "261")),
        (("--special-tokens", "a", "a"), ("--special-tokens a a", "twice")),
        (("--for", "gpt", "--model", "wordpiece"), ("<|endoftext|>", "; --for gpt chooses")),
        (("--sample", "0"), ("--sample 0",)),
        (("--sample", "1e-9"), ("--sample 1e-09", "none of the 105 documents")),
        (("--sample-bytes", "1"), ("--sample-bytes 1", "none of the 105 documents")),
        (("--sample", "0.1", "--sample-bytes", "5"), ("--sample 0.1", "with --sample-bytes 5")),
        (("--vocab-size", "20"), ("--vocab-size 20", "characters of the corpus")),
    ],
)
def test_what_cannot_be_is_refused(
    flags: tuple[str, ...], parts: tuple[str, ...], sample: Path, tmp_path: Path
) -> None:
    train(sample, tmp_path / "new" / "t.json", *flags, refused=parts)
    assert leftovers(tmp_path) == []


def test_an_unknown_normalizer_is_refused_with_those_there_are(
    sample: Path, tmp_path: Path
) -> None:
    outcome = train(sample, tmp_path / "t.json", "--normalizers", "nfq", status=USER_ERROR)
    assert "nfq" in outcome.errors
    assert "strip-accents" in outcome.errors


def test_a_file_is_overwritten_only_with_replace(sample: Path, tmp_path: Path) -> None:
    output, flags = tmp_path / "t.json", ("--model", "bpe", "--save-model", tmp_path / "model")
    output.write_text("mine")
    train(sample, output, refused=(f"--output {output}", "the file exists", "--replace"))
    assert output.read_text() == "mine"
    for _ in range(2):
        train(sample, output, *flags, "--replace")
        assert json.loads(output.read_text())["model"]["type"] == "BPE"


def test_a_folder_in_the_way_is_refused(sample: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    (tmp_path / "held").mkdir()
    (tmp_path / "held" / "merges.txt").write_text("mine")
    for folder, cause in (
        ("file", "a file is in its place"),
        ("file/below", "a file is in its place"),
        ("held", "it already has merges.txt"),
    ):
        flags = ("--model", "bpe", "--save-model", tmp_path / folder)
        parts = (f"--save-model {tmp_path / folder}", cause)
        train(sample, tmp_path / "t.json", *flags, refused=parts)
    for folder, output in (("new", "new"), ("new", "new/vocab.json")):
        flags = ("--model", "bpe", "--save-model", tmp_path / folder)
        parts = (f"--save-model {tmp_path / folder}", "--output")
        train(sample, tmp_path / output, *flags, refused=parts)
    train(sample, tmp_path / "held", refused=(f"--output {tmp_path / 'held'}", "it is a folder"))
    assert leftovers(tmp_path) == ["file", "held", "held/merges.txt"]


def test_a_tokenizer_is_extended_beside_its_configuration(
    tokenizer_path: Path, sample: Path, tmp_path: Path
) -> None:
    text = tmp_path / "text"
    text.write_text(sample.read_text() * 3 + "Привет , мир ! Мир и свет .\n" * 60)
    folder = tmp_path / "named"
    folder.mkdir()
    (folder / "tokenizer.json").write_bytes(tokenizer_path.read_bytes())
    (folder / "tokenizer_config.json").write_text('{"chat_template": "{{ messages }}"}')
    contents = list[bytes]()
    for flags in ((), TWO_WORKERS):
        output = tmp_path / str(len(contents)) / "tokenizer.json"
        more = ("--extend", folder, "--vocab-size", "2100", *flags)
        outcome = train(text, output, *more)
        contents.append(output.read_bytes())
    assert contents[0] == contents[1]
    old = Tokenizer.from_file(str(tokenizer_path)).get_vocab_size()
    assert f"{folder} with {2100 - old:,} new tokens, 2,100 in all" in outcome.output
    assert f"the first new id is {old}: resize" in outcome.output
    theirs = transformers.AutoTokenizer.from_pretrained(output.parent)
    assert theirs.mask_token == SPECIAL[4]
    assert theirs.chat_template == "{{ messages }}"
    own = read_tokenizer(str(output.parent), read_local)
    words = "Привет , мир ! The river"
    assert theirs(words, add_special_tokens=False)["input_ids"] == encode_with(own)([words])[0]
    assert len(theirs) == 2100
    build([text], output, tmp_path / "out")
    train(text, output, *more, refused=(f"--output {output}", "the file exists"))
    output.unlink()
    config = output.parent / "tokenizer_config.json"
    train(text, output, *more, refused=(f"--output {config}", "the file exists"))
    train(text, output, *more, "--replace")
    assert output.read_bytes() == contents[0]


def test_what_does_not_go_with_an_extension_is_refused(
    trained: dict[str, Path], sample: Path, tmp_path: Path
) -> None:
    output, extend = tmp_path / "t.json", ("--vocab-size", "9999", "--extend")
    cases: list[tuple[tuple[str | Path, ...], str]] = [
        ((*extend, trained["bpe"], "--model", "bpe"), "--model bpe: it does not go with --extend"),
        ((*extend, trained["bpe"], "--for", "gpt"), "--for gpt: it does not go with --extend"),
        ((*extend, trained["bpe"], "--save-model", tmp_path), "--save-model"),
        ((*extend, trained["unigram"]), "its model is Unigram"),
        ((*extend, tmp_path / "none"), f"--extend {tmp_path / 'none'}: there is no such file"),
    ]
    for flags, message in cases:
        train(sample, output, *flags, refused=(message,))
    assert not output.exists()


def test_the_command_line_has_the_options_of_the_models() -> None:
    declared = get_type_hints(GivenOptions)
    own: dict[str, Any] = {}
    for model in MODELS.values():
        types = get_type_hints(model)
        own |= {f.name: types[f.name] for f in fields(model)}
    assert declared.keys() == own.keys()
    for name, kind in declared.items():
        assert own[name] in (kind, kind | None)


def test_the_help_has_the_defaults_of_the_models() -> None:
    text = " ".join(run_here("train-tokenizer", "--help").output.replace("│", " ").split())
    for model in MODELS.values():
        for field in fields(model):
            if field.name in {"vocab_size", "special_tokens", "unk_token"} and field.default:
                default = field.default
                shown = " ".join(default) if isinstance(default, tuple) else str(default)
                assert shown in text


def test_a_terminal_shows_bytes_read_and_then_the_training(sample: Path, tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.write_bytes(sample.read_bytes() * 20)
    arguments = ("--input", text, "--output", tmp_path / "t.json", "--model", "bpe", "--replace")
    shown = show_on_terminal("train-tokenizer", *arguments)
    assert "of 1.0 MB" in shown
    assert "training bpe" in shown
    assert show_on_terminal("train-tokenizer", *arguments, "--no-progress") == ""


WORDS = ("--model", "wordlevel")


def test_a_sample_of_bytes_is_read_and_nothing_else(sample: Path, tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.write_bytes(sample.read_bytes() * 30)
    flags = (*WORDS, "--sample-bytes", "200000", "--replace")
    outcomes = [train(text, tmp_path / "t.json", *flags, *more) for more in ((), TWO_WORKERS)]
    read = [float(outcome.output.partition("from ")[2].split(" ")[0]) for outcome in outcomes]
    assert read == pytest.approx([0.2, 0.2], abs=0.1)
    assert outcomes[0].output == outcomes[1].output
    train(text, tmp_path / "here.json", *WORDS, "--sample-bytes", "200000")
    assert (tmp_path / "here.json").read_bytes() == (tmp_path / "t.json").read_bytes()


def test_a_job_counts_the_words_of_a_corpus_that_is_worth_it(sample: Path, tmp_path: Path) -> None:
    worth = sample.stat().st_size // 4
    for least, cause in ((worth + 1, "is counted at once"), (worth, "no run with this input")):
        flags = ("--resume", "--min-bytes-per-worker", str(least))
        train(sample, tmp_path / "t.json", *flags, refused=("--resume", cause))


def test_a_stopped_run_is_resumed_and_only_by_itself(
    sample: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = tmp_path / "t.json"

    def train_by_job(*flags: str, **end: Any) -> Outcome:
        # An option of Beam's makes it a job, in this process.
        return train(sample, output, *SMALL_RANGES, *flags, "--", "--job_name=words", **end)

    train(sample, tmp_path / "whole.json", *WORDS)
    train_by_job(*WORDS, "--resume", refused=("--resume", "was stopped there"))
    with monkeypatch.context() as patch:
        patch.setattr(transforms.corpus.count_words, "add_partition", fail)
        errors = train_by_job(*WORDS, status=FAILURE).errors
    assert re.search(r"Finished so far: \d+ tasks\. The same command with --resume", errors)
    train_by_job(*WORDS, refused=(f"--output {output}", "was stopped", "--resume"))
    train_by_job("--resume", refused=("--resume", "no run with this input and these options"))
    monkeypatch.setattr(transforms.corpus.count_words, "count_task", fail)
    train_by_job(*WORDS, "--resume")
    assert output.read_bytes() == (tmp_path / "whole.json").read_bytes()
    assert leftovers(tmp_path) == ["t.json", "whole.json"]


def test_what_the_counts_refuse_is_resumed_with_a_size_that_is_possible(
    sample: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output, flags = tmp_path / "t.json", ("--model", "wordpiece", "--drop-duplicates")
    train(sample, tmp_path / "whole.json", *flags, "--vocab-size", "500")
    train(sample, output, *flags, "--vocab-size", "20", refused=("Give", "--resume"))
    other = ("--resume", "--no-lowercase", "--vocab-size", "500")
    train(sample, output, *flags, *other, refused=("no run with", "or --replace"))
    monkeypatch.setattr(transforms.corpus.count_words, "count_task", fail)
    train(sample, output, *flags, "--resume", "--vocab-size", "500")
    assert output.read_bytes() == (tmp_path / "whole.json").read_bytes()
    monkeypatch.undo()
    # The same corpus would be refused again: nothing stays that could be resumed.
    refused = train(sample, output, *flags, "--replace", "--sample", "1e-9", refused=("none of",))
    assert "--resume" not in refused.errors
    assert leftovers(tmp_path) == ["t.json", "whole.json"]


def fail(*_: object) -> NoReturn:
    raise OSError("the disk is full")

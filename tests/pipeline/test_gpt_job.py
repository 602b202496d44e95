"""The command gpt: every mode and format; documents begin and end as `encode` has them."""

import gzip
import json
import re
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from tokenizers import (
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)

from corpusmill.commands.build_command import commands_of
from corpusmill.dataset.manifest import Manifest
from corpusmill.dataset.manifest_json import seal
from corpusmill.objectives.examples.fill_in_the_middle import FIM_TOKENS
from corpusmill.reading.data_set import DataSet
from corpusmill.reading.order.schedule import cut_stretches
from corpusmill.reading.token_windows import TokenWindows
from corpusmill.verification.check_data_set import verify
from tests.corpusmill.formats.test_token_files import open_as_megatron
from tests.corpusmill.objectives.reference_fim import undo
from tests.corpusmill.objectives.reference_gpt import windows
from tests.tools import jobs
from tests.tools.data_files import find_file, find_files, manifest_of
from tests.tools.origins import check_provenance
from tests.tools.real_corpora import paragraphs
from tests.tools.table_rows import for_rows
from tests.tools.tokenizer_samples import byte_level as trained_byte_level

FIM = ("<|fim_prefix|>", "<|fim_middle|>", "<|fim_suffix|>")
WINDOWS = ("--mode", "windows", "--max-seq-length", "40", "--overlap", "10")
PACK = ("--mode", "pack", "--max-seq-length", "64")
MOVED = ("--fim-rate", "0.7")
AT_TOKENS = (*MOVED, "--fim-cut", "tokens")


class Sample(NamedTuple):
    """A tokenizer that says how a text begins.

    Attributes:
        path: its file or folder.
        own: what gives ids as the tokenizer itself does.
        end: the id that ends a text.
        ends: whether the tokenizer itself ends each text with it.
    """

    path: Path
    own: Tokenizer
    end: int
    ends: bool = False


@pytest.fixture(scope="module")
def texts(sample: Path) -> list[str]:
    return [*paragraphs(sample)][:40]


@pytest.fixture(scope="module")
def corpus(texts: list[str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("corpus") / "texts.jsonl"
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    return path


def byte_level(texts: list[str], *special: str) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=500, special_tokens=[*special, *FIM], initial_alphabet=alphabet
    )
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def id_of(tokenizer: Tokenizer, name: str) -> int:
    number = tokenizer.token_to_id(name)
    assert number is not None
    return number


def template(tokenizer: Tokenizer, single: str, pair: str = "$A $B") -> Any:
    names = {part for part in f"{single} {pair}".split() if part[0] != "$"}
    ids = [(name, tokenizer.token_to_id(name)) for name in sorted(names)]
    return processors.TemplateProcessing(single=single, pair=pair, special_tokens=ids)


def plain(texts: list[str], folder: Path) -> Sample:
    """One that adds nothing to a text, and whose eos may be named otherwise."""
    tokenizer = byte_level(texts, "<s>", "</s>")
    tokenizer.save(str(folder / "plain.json"))
    return Sample(folder / "plain.json", tokenizer, id_of(tokenizer, "</s>"))


def like_llama(texts: list[str], folder: Path) -> Sample:
    """Llama 3's: the template stands in a sequence of post-processors."""
    tokenizer = byte_level(texts, "<|begin_of_text|>", "<|end_of_text|>")
    own = template(tokenizer, "<|begin_of_text|> $A", "<|begin_of_text|> $A <|begin_of_text|> $B:1")
    tokenizer.post_processor = processors.Sequence([processors.ByteLevel(), own])
    tokenizer.save(str(folder / "llama.json"))
    return Sample(folder / "llama.json", tokenizer, id_of(tokenizer, "<|end_of_text|>"))


def like_gemma(texts: list[str], folder: Path) -> Sample:
    """Gemma's: SentencePiece's spaces, `<bos>`, and a bos that is not the first id."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True))  # noqa: S106
    tokenizer.normalizer = normalizers.Replace(" ", "\u2581")
    tokenizer.decoder = decoders.Replace("\u2581", " ")
    tokenizer.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    special = ["<pad>", "<eos>", "<bos>", "<unk>", *FIM]
    trainer = trainers.BpeTrainer(
        vocab_size=400, special_tokens=special, max_token_length=12, show_progress=False
    )
    tokenizer.train_from_iterator(texts[:20], trainer)
    tokenizer.post_processor = template(tokenizer, "<bos> $A", "<bos> $A <bos> $B:1")
    tokenizer.save(str(folder / "gemma.json"))
    return Sample(folder / "gemma.json", tokenizer, id_of(tokenizer, "<eos>"))


def by_config(texts: list[str], folder: Path) -> Sample:
    """Llama 2's, where only `tokenizer_config.json` says what is added; here an end, too."""
    tokenizer = byte_level(texts, "<s>", "</s>", "<|endoftext|>")
    tokenizer.save(str(folder / "tokenizer.json"))
    config = {
        "add_bos_token": True, "bos_token": {"content": "<s>", "special": True},
        "add_eos_token": True, "eos_token": "</s>",
    }  # fmt: skip
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    tokenizer.post_processor = template(tokenizer, "<s> $A </s>")
    return Sample(folder, tokenizer, id_of(tokenizer, "</s>"), ends=True)


@pytest.fixture(scope="module", params=[plain, like_llama, like_gemma, by_config])
def tokenizer(
    request: pytest.FixtureRequest, texts: list[str], tmp_path_factory: pytest.TempPathFactory
) -> Sample:
    made: Sample = request.param(texts, tmp_path_factory.mktemp(request.param.__name__))
    return made


@pytest.fixture(scope="module")
def llama(texts: list[str], tmp_path_factory: pytest.TempPathFactory) -> Sample:
    return like_llama(texts, tmp_path_factory.mktemp("llama"))


def build(corpus: Path, tokenizer: Path, output: Path, *flags: str, **end: Any) -> Manifest | None:
    share = ("--validation-share", "0.2")
    jobs.build([corpus], tokenizer, output, *share, *flags, objective="gpt", **end)
    return None if end else manifest_of(output)


def rows_of(folder: Path, column: str = "input_ids") -> list[list[int]]:
    return [row[column] for row in jobs.rows_of(folder)]


def encode(texts: list[str], tokenizer: Sample, ends: bool) -> list[list[int]]:
    """The ids of each text as the tokenizer's own `encode` has them, ended if asked."""
    end = [tokenizer.end] if ends and not tokenizer.ends else []
    return [[*tokenizer.own.encode(text).ids, *end] for text in texts]


def check(output: Path, corpus: Path) -> None:
    """Check that a data set is sound, traced, and can be looked at."""
    assert verify(output) == []
    check_provenance(output, corpus)
    shown = jobs.run_here("inspect", output).output
    assert "example 1: " in shown
    assert " predictions" not in shown


def test_a_stream_holds_what_encode_gives(
    texts: list[str], corpus: Path, tokenizer: Sample, output: Path
) -> None:
    manifest = build(corpus, tokenizer.path, output)
    assert manifest
    expected = encode(texts, tokenizer, ends=True)
    assert sorted(rows_of(output)) == sorted(expected)
    begin = tokenizer.own.encode("").ids[:1]
    assert manifest.objective.facts == {"begin_of_text": begin, "end_of_text": [tokenizer.end]}
    first = f"token {begin[0]} (bos)" if begin else "no token of its own"
    words = f"Each document begins with {first}, and ends with token {tokenizer.end} (eos)."
    page = output.parent / "report.html"
    shown = jobs.run_here("inspect", output, "--html", page).output
    for text in (shown, (output / "README.md").read_text(), page.read_text()):
        assert words in text
    assert not begin or f"A  {tokenizer.own.id_to_token(begin[0])}" in shown
    check(output, corpus)


def test_windows_begin_with_their_document(
    texts: list[str], corpus: Path, tokenizer: Sample, output: Path
) -> None:
    manifest = build(corpus, tokenizer.path, output, *WINDOWS)
    assert manifest
    documents = encode(texts, tokenizer, ends=False)
    expected = [window for tokens in documents for window in windows(tokens, 40, 10)]
    assert sorted(rows_of(output)) == sorted(expected)
    assert manifest.counts["build.cut_documents"] == sum(len(tokens) > 40 for tokens in documents)
    check(output, corpus)


def test_packs_hold_documents_that_begin_and_little_padding(
    texts: list[str], corpus: Path, tokenizer: Sample, output: Path
) -> None:
    manifest = build(corpus, tokenizer.path, output, *PACK, "--num-shards", "1")
    assert manifest
    marks = zip(rows_of(output), rows_of(output, "cu_seqlens"), strict=True)
    pieces = [row[begin:end] for row, ends in marks for begin, end in pairwise(ends)]
    documents = encode(texts, tokenizer, ends=True)
    expected = [tokens[i : i + 64] for tokens in documents for i in range(0, len(tokens), 64)]
    assert sorted(pieces) == sorted(expected)
    assert manifest.counts["write.pieces"] == len(pieces)
    train = manifest.splits["train"]
    assert train.tokens > 0.97 * 64 * train.rows
    assert re.search(
        r"padding +[0-3]\.\d % +of the positions", jobs.run_here("inspect", output).output
    )
    check(output, corpus)


@for_rows("flags", [(), WINDOWS, PACK])
def test_either_can_be_left_out(
    flags: tuple[str, ...], corpus: Path, llama: Sample, output: Path
) -> None:
    without = ("--begin-of-text", "False", "--end-of-text", "False", "--replace")
    manifest = build(corpus, llama.path, output, *flags, *without)
    assert manifest
    around = {llama.end, llama.own.encode("").ids[0]}
    assert not around & {token for row in rows_of(output) for token in row}
    assert manifest.objective.facts == {"begin_of_text": [], "end_of_text": []}
    card = (output / "README.md").read_text()
    assert "begins with no token of its own, and ends with no token of its own" in card
    check(output, corpus)


def test_middles_are_moved_behind_the_beginning(
    texts: list[str], corpus: Path, llama: Sample, tmp_path: Path
) -> None:
    begin, roles = llama.own.encode("").ids, tuple(map(llama.own.token_to_id, FIM))
    for flags in (MOVED, AT_TOKENS):
        output = tmp_path / str(len(flags))
        manifest = build(corpus, llama.path, output, *flags)
        assert manifest
        middles = [undo(row[1:-1], roles) for row in rows_of(output)]  # type: ignore[arg-type]
        assert sorted(map(llama.own.decode, middles)) == sorted(texts)
        rows = [[*begin, *tokens, llama.end] for tokens in middles]
        # A cut between characters may leave other tokens.
        assert (sorted(rows) == sorted(encode(texts, llama, ends=True))) == (flags == AT_TOKENS)
        assert {(row[0], row[-1]) for row in rows_of(output)} == {(begin[0], llama.end)}
        moved = sum(row[1] == roles[0] for row in rows_of(output))
        assert 15 < moved == manifest.counts["build.fim_documents"] < len(texts)
        assert manifest.counts["build.kept_tokens"] == manifest.counts["tokenize.tokens"]
        shown = jobs.run_here("inspect", output, "--examples", "30").output
        assert all(name in shown for name in FIM)
        check(output, corpus)


def test_middles_of_windows_are_moved_behind_the_beginning(
    corpus: Path, llama: Sample, output: Path
) -> None:
    build(corpus, llama.path, output)
    data_set = DataSet(output, cache_folder=output.parent / "cache")
    samples = TokenWindows(data_set, 64, fim_rate=1.0)
    begin, prefix = llama.own.encode("").ids[0], llama.own.token_to_id(FIM[0])
    rows = [samples[number]["input_ids"] for number in range(len(samples))]
    following = np.concatenate([row[1:][row[:-1] == begin] for row in rows])
    assert len(following) > 5
    assert {*following.tolist()} == {prefix}


def test_a_beginning_can_be_asked_for(
    texts: list[str], corpus: Path, tmp_path: Path, output: Path
) -> None:
    own = plain(texts, tmp_path)
    build(corpus, own.path, output, "--begin-of-text", "True")
    begin = id_of(own.own, "<s>")
    expected = [[begin, *tokens] for tokens in encode(texts, own, ends=True)]
    assert sorted(rows_of(output)) == sorted(expected)
    without = byte_level(texts, "</s>")
    without.save(str(tmp_path / "without.json"))
    refused = ("it has no bos token", "bos_token")
    flags = ("--begin-of-text", "True")
    build(corpus, tmp_path / "without.json", tmp_path / "no", *flags, refused=refused)


def test_text_is_added_and_built_again_with_the_same_beginnings(
    corpus: Path, llama: Sample, tmp_path: Path
) -> None:
    first = tmp_path / "first"
    build(corpus, llama.path, first, "--begin-of-text", "False")
    other = tmp_path / "other.jsonl"
    other.write_text('{"text": "Another text of a lighthouse ."}\n')
    refused = ("built with other options", "begin_of_text")
    build(other, llama.path, first, "--append", refused=refused)
    build(other, llama.path, tmp_path / "second")
    build(other, llama.path, first, "--append", "--begin-of-text", "False")
    inputs = ("--input", other)
    jobs.build_again(tmp_path / "second", llama.path, tmp_path / "again", *inputs, objective="gpt")
    assert jobs.digests(tmp_path / "again") == jobs.digests(tmp_path / "second")


def test_a_data_set_that_says_nothing_of_beginnings_is_read_as_it_was_built(
    corpus: Path, llama: Sample, output: Path
) -> None:
    build(corpus, llama.path, output, "--begin-of-text", "False")
    manifest = json.loads((output / "dataset.json").read_text())
    del manifest["objective"]["facts"], manifest["objective"]["options"]["begin_of_text"]
    for name in ("bos_id", "before"):
        del manifest["tokenizer"]["special"][name]
    (output / "dataset.json").write_bytes(seal(json.dumps(manifest).encode()))
    assert verify(output) == []
    data_set = DataSet(output, cache_folder=output.parent / "cache")
    assert len(TokenWindows(data_set, 64, fim_rate=0.5)) > 10
    shown = jobs.run_here("inspect", output).output
    assert "Each document begins" not in shown


def test_documents_are_texts_as_they_stand(sample: Path, tmp_path: Path, output: Path) -> None:
    """By default a stream spells the articles, every line break and title of them."""
    tokenizer = Tokenizer.from_str(trained_byte_level())
    tokenizer.save(str(tmp_path / "bytes.json"))
    build(sample, tmp_path / "bytes.json", output)
    rows = rows_of(output)
    assert {row[-1] for row in rows} == {tokenizer.token_to_id("<|endoftext|>")}
    text = sample.read_text()
    articles = sorted((tokenizer.decode(row[:-1]) for row in rows), key=text.index)
    # The blank line before the first title is of no document.
    assert "".join(articles) == text.removeprefix(" \n")
    assert len(articles) > 5


def test_shards_in_the_order_of_the_corpus_are_contiguous_parts_of_it(
    texts: list[str], llama: Sample, tmp_path: Path, output: Path
) -> None:
    corpus = tmp_path / "in"
    corpus.mkdir()
    for name, part in (("a", texts[:15]), ("b", []), ("c", texts[15:22]), ("d", texts[22:])):
        content = "".join(json.dumps({"text": text}) + "\n" for text in part).encode()
        is_packed = name == "c"
        path = corpus / f"{name}.jsonl{'.gz' * is_packed}"
        path.write_bytes(gzip.compress(content, mtime=0) if is_packed else content)
    manifest = build(corpus, llama.path, output, "--order", "corpus", "--num-shards", "4")
    assert manifest
    assert "--order corpus" in commands_of(manifest)[0]
    check(output, corpus)
    samples = DataSet(output, cache_folder=tmp_path / "cache")
    assert samples.order().shard_sizes == cut_stretches(samples.shard_sizes, ())[0]
    expected, splits = encode(texts, llama, ends=True), []
    for split in ("train", "validation"):
        rows = [row["input_ids"] for row in jobs.rows_of(output, f"{split}-*")]
        assert [row for row in expected if row in rows] == rows
        splits.append(rows)
    assert len(splits[0]) + len(splits[1]) == len(texts)
    assert min(shard.rows for shard in manifest.splits["train"].shards) > 3


# Formats of tokens alone


def test_megatron_maps_the_documents(
    texts: list[str], corpus: Path, llama: Sample, output: Path
) -> None:
    build(corpus, llama.path, output, "--output-format", "megatron")
    results = []
    for tokens in find_files(output, "*.bin"):
        dataset = open_as_megatron(tokens.read_bytes(), tokens.with_suffix(".idx").read_bytes())
        results += [dataset.read(number) for number in range(len(dataset.lengths))]
    assert sorted(results) == sorted(encode(texts, llama, ends=True))
    assert "--data-path path/to/v1/train-00000-of-00003" in (output / "README.md").read_text()


def test_nanogpt_maps_one_file_a_split(
    corpus: Path, llama: Sample, output: Path, tmp_path: Path
) -> None:
    """The shards that were built in parallel, one after the other."""
    manifest = build(corpus, llama.path, output, "--output-format", "nanogpt")
    assert manifest
    build(corpus, llama.path, tmp_path / "parquet")
    for name, split in (("train", "train"), ("val", "validation")):
        rows = [row["input_ids"] for row in jobs.rows_of(tmp_path / "parquet", f"{split}-*")]
        data = np.memmap(find_file(output, f"{name}.bin"), dtype=np.uint16, mode="r")
        assert data.tolist() == [token for row in rows for token in row]
        lengths = np.fromfile(find_file(output, f"{name}.lengths"), np.int32)
        assert lengths.tolist() == list(map(len, rows))
        [shard] = manifest.splits[split].shards
        assert (shard.file, shard.rows, shard.tokens) == (f"v1/{name}.bin", len(rows), len(data))
    check(output, corpus)
    build(corpus, llama.path, output, "--replace")
    assert not list(output.rglob("train.bin"))


def test_documents_of_any_length_have_a_short_manifest(
    gpt_tokenizer: Path, tmp_path: Path, output: Path
) -> None:
    """A book's length is one number in the manifest, and not the zeros below it."""
    book = tmp_path / "book.txt"
    book.write_text("The lighthouse keeper .\n" * 20_000)
    flags = ("--validation-share", "0", "--num-shards", "1")
    manifest = build(book, gpt_tokenizer, output, *flags)
    assert manifest
    tokens = manifest.splits["train"].tokens
    split = jobs.read_manifest_json(output)["splits"]["train"]
    assert split["distributions"]["length"] == {str(tokens): 1}
    assert tokens > 100_000
    assert verify(output) == []
    shown = jobs.run_here("inspect", output)
    assert f"largest {tokens:,}" in shown.output
    assert f"... and {tokens - 1024:,} more tokens" in shown.output


# Moved middles


def test_an_estimate_of_moved_middles_is_the_build(
    sample: Path, llama: Sample, tmp_path: Path
) -> None:
    report = tmp_path / "numbers.json"
    arguments = ("--input", sample, "--tokenizer", llama.path, "--json", report, *jobs.SPREAD)
    shown = jobs.run_here("inspect-corpus", *arguments, "gpt", *MOVED).output
    assert re.search(r"sentences per document +1\.0 .* largest 1", shown)  # however they are cut
    manifest = build(sample, llama.path, tmp_path / "out", *MOVED, "--validation-share", "0")
    assert manifest
    shards = manifest.splits["train"].shards
    printed = json.dumps(json.loads(report.read_text()))
    assert f'"value": {sum(shard.bytes for shard in shards)}' in printed
    assert f'"value": {sum(shard.tokens for shard in shards)}' in printed


def test_middles_that_cannot_be_moved_are_refused(
    sample: Path, llama: Sample, gpt_tokenizer: Path, tmp_path: Path, output: Path
) -> None:
    path = llama.path
    refused = ("<|fim_prefix|>", "corpusmill train-tokenizer --for gpt --input")
    build(sample, gpt_tokenizer, output, *MOVED, refused=refused)
    build(sample, path, output, *MOVED, "--sentence-rule", "line", refused=("--fim-cut tokens",))
    ended = ("--end-of-text", "False")
    build(sample, path, output, *MOVED, *ended, refused=("go with --end-of-text False",))
    build(sample, path, output, "--fim-rate", "1.1", refused=("0 to 1",))
    words = Tokenizer.from_file(str(gpt_tokenizer))
    words.add_special_tokens([names[-2] for names in FIM_TOKENS.values()])  # as CodeLlama has them
    words.save(str(tmp_path / "words.json"))
    build(sample, tmp_path / "words.json", output, *MOVED, refused=("come back", "cut at tokens"))
    build(sample, tmp_path / "words.json", output, *AT_TOKENS)

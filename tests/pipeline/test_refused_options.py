"""Options that cannot be: refused before any work, by one message."""

import shlex
from collections.abc import Sequence
from itertools import product
from pathlib import Path

import pytest

from corpusmill.commands.table import load_command
from corpusmill.settings.words import gather_words
from pipeline.command_line import JOB
from tests.tools.jobs import (
    build,
    leftovers,
    list_text_objectives,
    read_manifest_json,
    run_any,
    run_here,
)
from tests.tools.table_rows import check_rows, for_rows

# An objective, its flags, and parts of the message.
CASES = [
    ("bert", "--num-shards=0", "--num-shards 0"),
    ("bert", "--num-shards=100000", "--num-shards 100000"),
    ("bert", "--seed=-1", "--seed -1"),
    ("bert", "--seed=18446744073709551616", "--seed 18446744073709551616"),
    ("bert", "--validation-share=1", "--validation-share 1"),
    ("bert", "--validation-share=-0.1", "--validation-share -0.1"),
    ("bert", "--max-rejects=-1", "--max-rejects -1"),
    ("bert", "--workers=0", "--workers 0"),
    ("bert", "--range-bytes=0", "--range-bytes 0"),
    ("bert", "--min-bytes-per-worker=-1", "--min-bytes-per-worker -1"),
    ("bert", "--max-seq-length=4", "--max-seq-length 4"),
    ("bert", "--duplicates=0", "--duplicates 0"),
    ("bert", "--short-seq-prob=1.5", "--short-seq-prob 1.5"),
    ("bert", "--masked-lm-prob=0", "--masked-lm-prob 0"),
    ("bert", "--max-predictions-per-seq=0", "--max-predictions-per-seq 0"),
    ("bert", "--pool-tokens=0", "--pool-tokens 0"),
    ("bert", "--max-line-bytes=0", "--max-line-bytes 0"),
    ("bert", "--max-document-bytes=0", "--max-document-bytes 0"),
    ("bert", "--compression-level=99", "--compression-level 99"),
    ("bert", "--compression-level=0", "--compression-level 0"),
    ("bert", "--runner Nonsense", "--runner Nonsense"),
    ("bert", "--order corpus", "--order corpus", "built 2 times", "build each document once"),
    # Words
    ("bert", "--ngram 3", "--whole-word-mask"),
    ("bert", "--words jieba", "--whole-word-mask"),
    ("bert", "--whole-word-mask --words nonsense", "--words nonsense"),
    ("bert", "--words wordpiece", "--words wordpiece", "--whole-word-mask"),
    ("bert", "--pairs google --segments full-sentences",
     "--pairs google", "it does not go with --segments full-sentences"),
    ("ernie", "--mask-word-prob 1.1", "--mask-word-prob 1.1"),
    ("ernie", "--words nonsense", "--words nonsense"),
    # Documents and sentences
    ("bert", "--sentence-rule document", "--sentence-rule document", "of sentences", "Use line"),
    ("bert", "--sentence-rule split --language tlh", "--language tlh", "no rules for it", "zh"),
    ("bert", "--language en", "--language"),
    ("bert", "--sentence-rule split", "--sentence-rule"),
    ("electra", "--document-rule whole-file",
     "--document-rule whole-file", "--no-blanks-separate-docs"),
    ("electra", "--no-blanks-separate-docs --document-rule blank-lines",
     "--document-rule blank-lines", "--no-blanks-separate-docs"),
    ("electra", "--no-blanks-separate-docs --document-rule wikitext",
     "--document-rule wikitext", "--no-blanks-separate-docs"),
    ("electra", "--max-seq-length 4", "--max-seq-length 4", "5 to 65535"),
    ("electra", "--overflow keep --duplicates 0", "--duplicates 0", "1 to 65535"),
    ("gpt", "--overlap 3", "--overlap 3", "it needs --mode windows"),
    # Formats and names of shards
    ("bert", "--output-format tfrecord --shard-name x.tfrecord-{shard} --validation-share 0.1",
     "--shard-name", "the same names", "Add {split}"),
    ("bert", "--shard-name x.tfrecord-{shard}-of-{shards}", "--shard-name", "end with .parquet"),
    ("bert", "--shard-name x", "--shard-name x", "Add {shard}"),
    ("bert", "--output-format tfrecord --compression zstd",
     "--compression zstd", "tfrecord files cannot be compressed", "none, gzip"),
    ("bert", "--output-format avro --compression snappy",
     "--compression snappy", "avro files cannot be compressed", "deflate, zstd, none"),
    ("bert", "--output-format avro --compression-level 12",
     "--compression-level 12", "the highest level of deflate is 9", "Give 1 to 9"),
    ("bert", "--output-format ernie-text", "ernie-text", "seg_labels"),
    ("ernie", "--output-format ernie-text --mask static", "ernie-text", "--mask static"),
    ("ernie", "--output-format ernie-text --padding max_length", "max_length"),
    ("gpt", "--mode pack --max-seq-length 128 --output-format megatron",
     "megatron", "have cu_seqlens, too", "stream"),
    ("gpt", "--mode windows --max-seq-length 40 --overlap 10 --output-format nanogpt",
     "nanogpt", "cut already", "--mode stream"),
    ("gpt", "--padding max_length", "--padding max_length", "no maximum length"),
    ("gpt", "--output-format megatron --compression zstd",
     "megatron files cannot be compressed with this codec"),
]  # fmt: skip
# Words that are misspelt get those that were meant.
MEANT = [
    ("bert", flags, f"Did you mean {meant}")
    for flags, meant in (
        ("--preset robert", "roberta"), ("--preset RoBERTa", "roberta"),
        ("--output-format parqet", "parquet"), ("--input-format jsonlines", "json-lines"),
        ("--compression zstdd", "zstd"), ("--document-rule wikitxt", "wikitext"),
        ("--sentence-rule lines", "line"), ("--runner flnk", "Flink"),
        ("--whole-word-mask --words jeiba", "jieba"),
        ("--order corpsu", "corpus"), ("--log-level warn", "warning"), ("--sed 1", "--seed"),
    )
]  # fmt: skip


def test_what_cannot_be_is_refused_before_any_work(
    sample: Path, gpt_tokenizer: Path, output: Path
) -> None:
    def check(row: tuple[str, ...]) -> None:
        objective, flags, *parts = row
        build([sample], gpt_tokenizer, output, *flags.split(), objective=objective, refused=parts)
        assert leftovers(output.parent) == []

    check_rows([*CASES, *MEANT], check)


def test_all_inputs_are_read_however_they_are_given() -> None:
    options = load_command("bert", JOB).list_options()
    for arguments, merged in (
        ("--input a b --seed 1", {"input": ["a", "b"], "seed": ["1"]}),
        (
            "--input a --no-wait --input b c --replace",
            {"input": ["a", "b", "c"], "wait": ["False"], "replace": ["True"]},
        ),
        ("--input=a --input b", {"input": ["a", "b"]}),
        ("--max_seq_length=5", {"max_seq_length": ["5"]}),
    ):
        assert gather_words(arguments.split(), options) == merged


def test_an_option_given_twice_is_refused(sample: Path, tokenizer_path: Path, output: Path) -> None:
    arguments = ("--input", sample, "--tokenizer", tokenizer_path, "--output", output)
    for flags in (
        "--seed 1 --seed 2", "--seed=2 --seed=2", "--resume --no-resume",
        "--max-seq-length 64 --max_seq_length 32",
    ):  # fmt: skip
        run_here("bert", *arguments, *flags.split(), refused=("given twice", "Give it once"))
        assert not output.exists()


def test_two_inputs_are_read_as_one(sample: Path, tokenizer_path: Path, output: Path) -> None:
    half = output.parents[1] / "half"
    half.write_bytes(b"".join(sample.read_bytes().splitlines(keepends=True)[:100]))
    arguments = ("--tokenizer", tokenizer_path, "--output", output)
    run_here("bert", "--input", half, *arguments, "--input", sample)
    files = read_manifest_json(output)["corpus"]["files"]
    assert {Path(file["path"]).name for file in files} == {"half", sample.name}


@pytest.mark.parametrize(
    ("objective", "flags"),
    [(name, ()) for name in list_text_objectives()]
    + [("gpt", ("--fim-rate", "0.5")), ("t5", ("--denoisers", "ul2"))],
)
def test_a_tokenizer_of_another_objective_is_refused_with_the_command_that_trains_one(
    objective: str, flags: Sequence[str], sample: Path, tmp_path: Path
) -> None:
    other, suited, output = tmp_path / "other.json", tmp_path / "suited.json", tmp_path / "out"
    run_here("train-tokenizer", "--input", sample, "--model", "bpe", "--output", other,
             "--special-tokens", "[nothing]")  # fmt: skip
    part = f"To train one: corpusmill train-tokenizer --for {objective} --input {sample}"
    refused = build([sample], other, output, *flags, objective=objective, refused=[part])
    _, *command = shlex.split(refused.errors.partition("To train one: ")[2])
    run_here(*command[:-1], suited)
    build([sample], suited, output, *flags, "--num-shards", "1", objective=objective)


def test_no_command_that_would_not_do_is_advised(sample: Path, tmp_path: Path) -> None:
    arguments = ("--input", sample, "--for", "t5", "--output", tmp_path / "t.json")
    run_here("train-tokenizer", *arguments)
    refused = build(
        [sample], tmp_path / "t.json", tmp_path / "out", "--max-seq-length", "5000",
        objective="t5", refused=["it lacks <extra_id_128>. Give a smaller --max-seq-length"],
    )  # fmt: skip
    assert "To train one" not in refused.errors


def test_a_misspelt_word_of_any_command_gets_the_one_that_was_meant() -> None:
    for command, meant in (
        (["brt"], "bert"), (["config", "inspekt"], "inspect"),
        (["train-tokenizer", "--for", "gtp"], "gpt"),
        (["train-tokenizer", "--model", "wordpeice"], "wordpiece"),
        (["train-tokenizer", "--normalizers", "lowercas"], "lowercase"),
    ):  # fmt: skip
        run_here(*command, refused=[f"Did you mean {meant}"])


def test_a_file_where_a_folder_is_to_be_is_named(
    sample: Path, tokenizer_path: Path, tmp_path: Path
) -> None:
    file = tmp_path / "file"
    file.write_text("mine")
    for flag, below in product(("--output", "--temp-location"), ("", "inner/folder")):
        what = f"{file} is a file" if below else "it is a file"
        part = f"{flag} {file / below}: {what}, and no folder. Give a new or an empty folder."
        build([sample], tokenizer_path, tmp_path / "out", flag, file / below, refused=[part])
        assert file.read_text() == "mine"
        assert leftovers(tmp_path) == ["file"]


# The usual mistakes of the first hour

# A command line, in which {} is a folder with text/, tokenizer.json and config.yaml.
MISTAKES = [
    ("bert --input {}/nowhere", "nowhere: no such file. Check the path"),
    ("bert --input {}/text --tokenizer {}/nowhere", "nowhere: there is no such file"),
    ("bert --input {}/text --tokenizer {}/text/a.txt", "so it is not a BERT vocabulary. Give"),
    ("t5 --input {}/text", "To train one: corpusmill train-tokenizer --for t5 --input {}/text"),
    ("t5 --source a={}/text@2", "corpusmill train-tokenizer --for t5 --source a={}/text@2"),
    (
        "bert --input {}/text --output {}/text",
        "that is not part of a data set (a.txt). Move that file away",
    ),
    ("bert --input {}/text --output {}/tokenizer.json", "it is a file, and no folder. Give a new"),
    ("bert --input {}/text --source a={}/text", "text: it does not go with --input"),
    ("bert --input {}/text --sentence-rule split", "--sentence-rule split: it needs --language"),
    (
        "bert --input {}/text --config {}/config.yaml",
        "inptu: there is no such option. Did you mean",
    ),
    ("train-tokenizer --input {}/text --vocab-size 3", "a letter alone need 6. Give 6 or more"),
    ("verify {}/text", "so it is not a data set. Give the folder that a build wrote"),
    ("inspect {}/tokenizer.json", "tokenizer.json: it is a file. Give the folder that a build wro"),
    ("trace {}/text", "nothing says what to trace. Give one of --row, "),
    ("drop {}/text --document 1", "text: there is no dataset.json, so it is not a data set"),
]


@for_rows(("typed", "part"), MISTAKES)
def test_a_mistake_of_the_first_hour_is_one_message_before_any_work(
    typed: str, part: str, tokenizer_path: Path, tmp_path: Path
) -> None:
    (tmp_path / "text").mkdir(exist_ok=True)
    (tmp_path / "text" / "a.txt").write_text("Some text .\n")
    (tmp_path / "config.yaml").write_text("inptu: text\n")
    (tmp_path / "tokenizer.json").write_bytes(tokenizer_path.read_bytes())
    command, *words = typed.format(*[tmp_path] * 2).split()
    for flag, name in (("--tokenizer", "tokenizer.json"), ("--output", "out")):
        is_needed = {"--input", "--source"} & {*words} and flag not in words
        if is_needed and not (flag == "--tokenizer" and command == "train-tokenizer"):
            words += [flag, str(tmp_path / name)]
    before = leftovers(tmp_path)
    run_here(command, *words, refused=[part.format(tmp_path)])
    assert leftovers(tmp_path) == before


def test_a_call_without_a_command_lists_all() -> None:
    outcome = run_any()
    assert (outcome.status, outcome.errors) == (0, "")
    assert "COMMAND" in outcome.output
    assert "bert" in outcome.output


def test_what_is_named_once_is_counted_in_the_singular(
    sample: Path, tokenizer_path: Path, tmp_path: Path
) -> None:
    build([sample], tokenizer_path, tmp_path / "out", "--num-shards", "1")
    assert "its shard with " in run_here("verify", tmp_path / "out").output
    (tmp_path / "out" / "tokenizer.json").unlink()
    assert run_here("verify", tmp_path / "out", status=1).output.endswith(": 1 problem\n")

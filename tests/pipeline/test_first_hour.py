"""The usual mistakes of the first hour: one line with the value, the cause and the cure."""

from pathlib import Path

from tests.tools.jobs import build, leftovers, run_any, run_here
from tests.tools.table_rows import for_rows

# A command line, in which {} is a folder with text/, tokenizer.json and config.yaml.
MISTAKES = [
    ("bert --input {}/nowhere", "nowhere: no such file. Check the path"),
    ("bert --input {}/text --tokenizer {}/nowhere", "nowhere: there is no such file"),
    ("bert --input {}/text --tokenizer {}/text/a.txt", "so it is not a BERT vocabulary. Give"),
    ("t5 --input {}/text", "To train one: corpusmill train-tokenizer --for t5 --input {}/text"),
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
        is_needed = "--input" in words and flag not in words
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

"""Mistakes on the command line: one line each, with what is meant by it."""

import pytest

from corpusmill.commands.command import choose_variant
from corpusmill.commands.table import list_commands, load_command
from corpusmill.console.usage_errors import list_options, list_subcommands
from pipeline.command_line import JOB
from tests.tools.jobs import run_here

NEEDED = "--input a --tokenizer t --output o"


@pytest.mark.parametrize(
    ("typed", "parts"),
    [
        ("", ("corpusmill: a command is missing", "Give one of bert, electra")),
        ("roberta", ("roberta: there is no such command", "Did you mean bert?", "verify")),
        ("--seed 1 bert", ("--seed: the command comes before its options",)),
        ("bert --input a", ("--tokenizer, --output: they are missing", "bert --help")),
        ("inspect", ("folder: it is missing",)),
        (f"bert {NEEDED} --num-shard 3", ("--num-shard: there is no such option", "--num-shards")),
        ("bert --no-wat", ("--no-wat: there is no such option", "Did you mean --no-wait")),
        ("train-tokenizer --vocab_siz 3 --input a", ("--vocab-siz: ", "--vocab-size?")),
        ("inspect a --xyz", ("--xyz: there is no such option", "corpusmill inspect --help")),
        (f"bert {NEEDED} --duplicates=many", ("--duplicates many: the value is not a whole",)),
        (f"bert {NEEDED} b", ("b: it is neither an option nor the value of one",)),
        ("inspect-corpus --input a --tokenizer t roberta",
         ("roberta: there is no such objective", "bert, electra, ernie, gpt")),
        ("inspect-corpus --input a --tokenizer t bert --max-seq-len 4", ("--max-seq-length?",)),
        ("inspect-corpus bert --input a", ("--input: it is on the wrong side of the objective",)),
        ("inspect-corpus --input a --max-seq-length 9 bert",
         ("--max-seq-length: it is on the wrong side", "options follow its name")),
        (f"bert {NEEDED} --num-shards abc",
         ("--num-shards abc: the value is not a whole number or None",)),
        (f"bert {NEEDED} --validation_share=x", ("--validation-share x: the value is not a num",)),
        (f"bert {NEEDED} --segments next-sentences",
         ("--segments next-sentences: ", "Did you mean next-sentence", "doc-sentences")),
        (f"bert {NEEDED} --num-shards", ("--num-shards: its value is missing",)),
    ],
)  # fmt: skip
def test_a_mistake_is_one_line(typed: str, parts: tuple[str, ...]) -> None:
    outcome = run_here(*typed.split(), refused=parts)
    assert "class" not in outcome.errors
    assert len(outcome.errors) < 300


@pytest.mark.parametrize("command", [entry.name for entry in list_commands()])
def test_options_that_are_suggested_are_those_of_the_help(command: str) -> None:
    loaded = load_command(command, JOB)
    # One of the words that choose the options, as all others have the same form.
    name = [command, *list(loaded.variants)[:1]]
    options = choose_variant(loaded, name)[0].options
    words = {word.strip(",|") for word in run_here(*name, "--help").output.split()}
    words |= {part for word in words for part in word.split("|")}
    subcommands = set(list_subcommands(options))
    for word in subcommands:
        shown = run_here(command, word, "--help").output.split()
        words |= {part.strip(",") for text in shown for part in text.split("|")}
    known = set(list_options(options))
    missing = {option for option in known - words if not option.startswith("--no-")}
    assert missing == set()
    assert bool(subcommands) == (command == "inspect-corpus")


def test_help_names_the_whole_command() -> None:
    for words in (("bert",), ("inspect-corpus",), ("inspect-corpus", "gpt")):
        assert f"usage: corpusmill {' '.join(words)} " in run_here(*words, "--help").output

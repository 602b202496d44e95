"""Mistakes on the command line: one line each, with what is meant by it."""

import pytest

from corpusmill.commands.table import list_commands, load_command
from pipeline.command_line import JOB
from tests.tools.jobs import run_here

NEEDED = "--input a --tokenizer t --output o"


@pytest.mark.parametrize(
    ("typed", "parts"),
    [
        ("roberta", ("roberta: there is no such command", "Did you mean bert?", "verify")),
        ("--seed 1 bert", ("--seed: the command comes before its options",)),
        ("bert --input a", ("--tokenizer, --output: they are missing", "Give them")),
        ("inspect", ("folder: it is missing. Give it: the data set, as in `",)),
        ("config", ("subject: it is missing. Give it: a command such as bert",)),
        ("push a", ("name: it is missing. Give it: where to push it", "push FOLDER NAME")),
        (f"bert {NEEDED} --num-shard 3", ("--num-shard: there is no such option", "--num-shards")),
        ("bert --no-wat", ("--no-wat: there is no such option", "Did you mean --no-wait")),
        ("train-tokenizer --vocab_siz 3 --input a", ("--vocab-siz: ", "--vocab-size?")),
        ("inspect a --xyz", ("--xyz: there is no such option", "--help explains all options")),
        (f"bert {NEEDED} --duplicates=many", ("--duplicates many: the value is not a whole",)),
        (f"bert {NEEDED} b", ("b: it is neither an option nor the value of one",)),
        ("inspect-corpus --input a --tokenizer t roberta",
         ("roberta: it is neither an option nor the value of one",)),
        ("inspect-corpus --input a --tokenizer t bert --max-seq-len 4", ("--max-seq-length?",)),
        (f"bert {NEEDED} --replace=yes", ("--replace=yes: the option takes no value",)),
        (f"bert {NEEDED} --seed= ", ("--seed: its value is empty",)),
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
    words = {word.strip(",|") for word in run_here(*name, "--help").output.split()}
    chosen = loaded.choose(name[1]) if loaded.variants else loaded
    flags = {option.flag for option in chosen.list_options() if not option.is_positional}
    assert flags <= words


def test_help_names_the_whole_command() -> None:
    for words in (("bert",), ("inspect-corpus",), ("inspect-corpus", "gpt")):
        assert f"usage: corpusmill {' '.join(words)} " in run_here(*words, "--help").output

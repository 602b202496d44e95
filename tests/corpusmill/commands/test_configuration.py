"""Options from a file: what it may hold, what wins, and what is refused."""

import re
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from corpusmill.commands.command_line import parse
from corpusmill.commands.config import Form, list_all, render
from corpusmill.commands.table import list_commands, load_command
from corpusmill.errors import UserError
from corpusmill.objectives.registry import OBJECTIVES
from corpusmill.settings.options import Option
from pipeline.command_line import JOB

load = partial(load_command, job=JOB)
COMMANDS = {entry.name: load(entry.name) for entry in list_commands()}


def write(folder: Path, content: str, suffix: str = ".yaml") -> list[str]:
    """Write a file, and return the flag that names it."""
    path = folder / f"build{suffix}"
    path.write_text(content)
    return ["--config", str(path)]


def options_from(words: Sequence[str]) -> Any:
    return parse(words, JOB)[1]


def give_required(options: Sequence[Option]) -> list[str]:
    """Give what a command needs; the file that `config` prints has the same values."""
    required = [option for option in options if option.is_required]
    leading = [option.name.upper() for option in required if option.is_positional]
    flags = [option for option in required if not option.is_positional]
    return [*leading, *(word for option in flags for word in (option.flag, option.name.upper()))]


@pytest.mark.parametrize("form", ["yaml", "toml"])
def test_the_printed_file_of_every_command_has_its_defaults(form: Form, tmp_path: Path) -> None:
    for name, command in COMMANDS.items():
        options = list_all(command)
        text = render(name, options, {}, form)
        expected = options_from([name, *give_required(options)])
        for content in (text, re.sub(r"(?m)^#(?!beam)(?=\w+(:| =) )", "", text)):
            assert options_from([name, *write(tmp_path, content, f".{form}")]) == expected, name
        documented = sum(line.startswith("# ") for line in text.splitlines())
        words = [name, *write(tmp_path, text.replace("\n#beam", "\nbeam"), f".{form}")]
        assert parse(words, JOB)[2] == ("--project=NAME",)
        assert documented > len(options)


def test_flags_win_over_the_file_and_both_over_a_preset(tmp_path: Path) -> None:
    content = """
        preset: roberta
        input: corpus/*.txt   # a single value of a list
        tokenizer: vocab.txt
        output: out
        seed: 7
        max-seq-length: 128
        duplicates: 3
        masked_lm_prob: 1e-1
        progress: false
        language: no          # Norwegian
        sentence_rule: split
    """
    file = write(tmp_path, content)
    words = ["--tokenizer", "other.txt", "--duplicates=2", "--progress"]
    build = options_from(["bert", *words[:2], *file, *words[2:]])
    assert (build.dataset.input, build.dataset.tokenizer) == (("corpus/*.txt",), "other.txt")
    assert (build.dataset.seed, build.run.progress, build.documents.language) == (7, True, "no")
    objective = build.objective
    assert (objective.max_seq_length, objective.duplicates) == (128, 2)
    assert (objective.masked_lm_prob, objective.segments) == (0.1, "full-sentences")


def test_names_with_values_are_a_list_and_beam_has_a_place(tmp_path: Path) -> None:
    content = """
        role_tokens: {fim_prefix: <PRE>}
        beam:
          project: mine
          region: here
          streaming: true
          experiments: [one, two]
    """
    file = write(tmp_path, content)
    needed = ("--input", "a", "--tokenizer", "t", "--output", "o")
    _, build, beam = parse(["gpt", *file, *needed, "--", "--region", "there"], JOB)
    assert build.tokenizer_options.role_tokens == ("fim_prefix=<PRE>",)
    assert beam == (
        "--project=mine", "--streaming", "--experiments=one", "--experiments=two", "--region",
        "there",
    )  # fmt: skip


def test_the_objective_of_an_estimate_is_in_the_file_or_a_word(tmp_path: Path) -> None:
    common = "input: [c]\ntokenizer: t\n"
    file = write(tmp_path, f"{common}objective: electra\nmax_seq_length: 64")
    for words in (["inspect-corpus", *file], ["inspect-corpus", *file, "electra"]):
        objective = options_from(words).objective
        assert (type(objective), objective.max_seq_length) == (OBJECTIVES["electra"], 64)
    file = write(tmp_path, f"{common}mode: stream")
    assert options_from(["inspect-corpus", *file, "gpt"]).objective.mode == "stream"


def test_a_byte_order_mark_is_no_part_of_a_file(tmp_path: Path) -> None:
    for suffix, content in ((".yaml", "folder: out"), (".toml", "folder = 'out'")):
        file = write(tmp_path, f"\ufeff{content}", suffix)
        assert options_from(["inspect", *file]).folder == "out"


def test_a_value_without_a_name_may_stand_in_the_file(tmp_path: Path) -> None:
    file = write(tmp_path, "folder: out\nexamples: 5")
    assert options_from(["inspect", *file]).folder == "out"
    for words in (("other", *file), (*file, "other"), (*file, "other", "--examples", "7")):
        assert options_from(["inspect", *words]).folder == "other"


def refuse(words: list[str]) -> str:
    """Return the message for which a command line is refused."""
    with pytest.raises(UserError) as refusal:
        parse(words, JOB)
    return str(refusal.value)


YAML = {
    "": ["it sets no option", "corpusmill config"],
    "# nothing\n": ["it sets no option"],
    "- seed\n- 1": ["it is not a list of names with their values"],
    "seed: 1\nseed: 2": ["line 2", "the key seed is given twice"],
    "num-shards: 1\nnum_shards: 2": ["num_shards", "the option is given twice"],
    "seed: [1": ["line 1"],
    "seed: 1\n? [a, b]\n: 2": ["line 2", "the key is a seq, and not a text"],
    "beam:\n  1: 2": ["line 2", "the key is 1 (int), and not a text"],
    f"seed: 0x{'f' * 5000}": ["line 1", "is too large"],
    "seed: 18446744073709551616": ["a number has more than 64 bits"],
    "seed: !!python/name:os.system": ["could not determine a constructor"],
    "max_seq_lenght: 5": ["there is no such option", "Did you mean max_seq_length"],
    "seed: ten": ["seed: ten: the value is not a whole number. Give a whole number."],
    "seed: 1.0": ["seed: 1.0: the value is not a whole number"],
    "seed: yes": ["seed: yes: the value is not"],
    "strict: no": ["strict: no: the value is not True or False"],
    "tokenizer: 30522": ["tokenizer: 30522: the value is not a text"],
    "tokenizer:": ["tokenizer: None: the value is not a text"],
    "num_shards: many": ["not a whole number or None"],
    "segments: pairs": ["not one of next-sentence, sentence-order"],
    "input: [1]": ["input: 1: the value is not a list of texts"],
    "output: {a: b}": ["the value is not a text"],
    "beam: --project=x": ["it does not have Beam's options by name"],
    "config: x.yaml": ["config: there is no such option"],
}
TOML = {
    f"a = {'[' * 5000}": "it is not TOML",
    "seed = 2024-01-01": "the value is not a whole",
    "seed = 1\nseed = 2": "it is not TOML",
}


def test_refused_files_and_flags(tmp_path: Path) -> None:
    for content, parts in YAML.items():
        message = refuse(["bert", *write(tmp_path, content)])
        assert not [part for part in parts if part not in message], message
    for content, part in TOML.items():
        assert part in refuse(["bert", *write(tmp_path, content, ".toml")])
    file = write(tmp_path, "seed = 1", ".toml")
    for words, part in (
        (["bert", "--config", "missing.yaml"], "No such file"),
        (["bert", "--config", "build.ini"], "does not end with .yaml"),
        (["bert", "--config"], "its value is missing"),
        (["--config", "build.yaml"], "the command comes before its options"),
        (["bert", *file, *file], "the option is given twice"),
        (["brt", *file], "there is no such command"),
    ):
        assert part in refuse(words)

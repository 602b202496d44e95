"""The commands that a manifest tells."""

import shlex
from pathlib import Path

import pytest

from corpusmill.commands.build_command import commands_of
from corpusmill.dataset.manifest_json import decode
from tests.tools.jobs import build, run_here

BERT = (
    "--seed 7 --max-seq-length 48 --num-shards 3 --validation-share 0.3 "
    "--document-rule blank-lines --sentence-rule split --language en --mask dynamic "
    "--whole-word-mask --no-special-tokens-in-text"
)
GPT = "--mode pack --max-seq-length 32 --output-format avro --compression none"


@pytest.mark.parametrize(("objective", "flags"), [("bert", BERT), ("gpt", GPT)])
def test_the_command_that_inspect_shows_builds_the_same_data_set(
    objective: str, flags: str, sample: Path, gpt_tokenizer: Path, tmp_path: Path
) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    build([sample], gpt_tokenizer, first, *flags.split(), objective=objective)
    shown = run_here("inspect", first, "--examples", "0").output
    [command] = commands_of(decode((first / "dataset.json").read_bytes(), "first"))
    assert command in shown
    words = {"INPUT": str(sample), "OUTPUT": str(second), gpt_tokenizer.name: str(gpt_tokenizer)}
    program, *arguments = shlex.split(command)
    assert program == "corpusmill"
    run_here(*(words.get(word, word) for word in arguments))
    assert (first / "dataset.json").read_bytes() == (second / "dataset.json").read_bytes()


def test_the_commands_of_parts_build_them_again(
    halves: tuple[Path, Path], tokenizer_path: Path, tmp_path: Path
) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    flags = ("--tokenizer", tokenizer_path, "--output", first, "--num-shards", "2")
    run_here("bert", "--source", f"wiki={halves[0]}", *flags, "--max-seq-length", "64")
    more = ("--source", f"news={halves[1]}", f"wiki={halves[1]}@1.2345678", "--existing", "allow")
    append = ("--append", *more, *flags, "--max-seq-length", "64")
    run_here("bert", *append)
    shown = run_here("inspect", first, "--examples", "0").output
    commands = commands_of(decode((first / "dataset.json").read_bytes(), "first"))
    assert all(command in shown for command in commands)
    words = {"OUTPUT": str(second), tokenizer_path.name: str(tokenizer_path)}
    words |= {
        "news=NEWS@1": f"news={halves[1]}",
        "wiki=WIKI@1.2345678": f"wiki={halves[1]}@1.2345678",
    }
    words["wiki=WIKI@1"] = f"wiki={halves[0]}"
    for command, unrecorded in zip(commands, ((), more[3:]), strict=True):
        arguments = [words.get(word, word) for word in shlex.split(command)[1:]]
        run_here(*arguments, *unrecorded)
    assert (first / "dataset.json").read_bytes() == (second / "dataset.json").read_bytes()
    config = run_here("config", first).output
    assert 'wiki=WIKI@1"' in config
    assert "news" not in config

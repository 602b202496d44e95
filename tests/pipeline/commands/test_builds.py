"""The command that a manifest tells."""

import shlex
from pathlib import Path

import pytest

from corpusmill.commands.build_command import command_of
from corpusmill.dataset.manifest_json import decode
from tests.tools.jobs import build, run_here

BERT = (
    "--seed 7 --max-seq-length 48 --num-shards 3 --bin-size 16 --validation-share 0.3 "
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
    command = command_of(decode((first / "dataset.json").read_bytes(), "first"))
    assert command in shown
    words = {"INPUT": str(sample), "OUTPUT": str(second), gpt_tokenizer.name: str(gpt_tokenizer)}
    program, *arguments = shlex.split(command)
    assert program == "corpusmill"
    run_here(*(words.get(word, word) for word in arguments))
    assert (first / "_SUCCESS").read_bytes() == (second / "_SUCCESS").read_bytes()

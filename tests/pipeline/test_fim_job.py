"""The command gpt with moved middles: both cuts, in any number of processes and every format."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer

from corpusmill.objectives.examples.fill_in_the_middle import FIM_TOKENS
from tests.corpusmill.objectives.reference_fim import undo
from tests.tools import jobs
from tests.tools.data_files import manifest_of
from tests.tools.tokenizer_samples import byte_level

NAMES = ("<|fim_prefix|>", "<|fim_middle|>", "<|fim_suffix|>")
MOVED = ("--fim-rate", "0.7")
AT_TOKENS = (*MOVED, "--fim-cut", "tokens")


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    tokenizer = Tokenizer.from_str(byte_level())
    tokenizer.add_special_tokens([*NAMES])
    return tokenizer


@pytest.fixture(scope="module")
def path(tokenizer: Tokenizer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("fim") / "tokenizer.json"
    tokenizer.save(str(path))
    return path


def build(sample: Path, tokenizer: Path, output: Path, *flags: str, **end: Any) -> None:
    share = ("--validation-share", "0.2")
    jobs.build([sample], tokenizer, output, *share, *flags, objective="gpt", **end)


def spell(tokenizer: Tokenizer, rows: list[list[int]]) -> str:
    """Undo what was done to the rows of a stream, and join them in the order of the sample."""
    end = tokenizer.token_to_id("<|endoftext|>")
    roles = tuple(map(tokenizer.token_to_id, NAMES))
    assert all(row[-1] == end and row.count(end) == 1 for row in rows)
    return "".join(sorted(tokenizer.decode(undo(row[:-1], roles)) for row in rows))  # type: ignore[arg-type]


def plain_text(sample: Path, tokenizer: Path, tmp_path: Path) -> str:
    build(sample, tokenizer, tmp_path / "plain")
    rows = [row["input_ids"] for row in jobs.rows_of(tmp_path / "plain")]
    return spell(Tokenizer.from_file(str(tokenizer)), rows)


@pytest.mark.parametrize("flags", [MOVED, AT_TOKENS])
def test_the_texts_come_back(
    flags: tuple[str, ...], sample: Path, path: Path, tokenizer: Tokenizer, tmp_path: Path
) -> None:
    build(sample, path, tmp_path / "moved", *flags)
    rows = [row["input_ids"] for row in jobs.rows_of(tmp_path / "moved")]
    prefix = tokenizer.token_to_id(NAMES[0])
    counts = manifest_of(tmp_path / "moved").counts
    assert 10 < counts["build.fim_documents"] < counts["tokenize.documents"]
    assert sum(prefix in row for row in rows) == counts["build.fim_documents"]
    assert counts["build.kept_tokens"] == counts["tokenize.tokens"]
    assert spell(tokenizer, rows) == plain_text(sample, path, tmp_path)
    shown = jobs.run_here("inspect", tmp_path / "moved", "--examples", "30").output
    assert all(name in shown for name in NAMES)


def test_an_estimate_is_the_build(sample: Path, path: Path, tmp_path: Path) -> None:
    report = tmp_path / "numbers.json"
    arguments = ("--input", sample, "--tokenizer", path, "--json", report, *jobs.SPREAD)
    shown = jobs.run_here("inspect-corpus", *arguments, "gpt", *MOVED).output
    assert re.search(r"sentences per document +1\.0 .* largest 1", shown)  # however they are cut
    build(sample, path, tmp_path / "out", *MOVED, "--validation-share", "0")
    shards = manifest_of(tmp_path / "out").splits["train"].shards
    printed = json.dumps(json.loads(report.read_text()))
    assert f'"value": {sum(shard.bytes for shard in shards)}' in printed
    assert f'"value": {sum(shard.tokens for shard in shards)}' in printed


def test_what_cannot_be_done_is_refused(
    sample: Path, path: Path, gpt_tokenizer: Path, tmp_path: Path, output: Path
) -> None:
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

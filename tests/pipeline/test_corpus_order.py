"""Data sets whose documents keep the order of the corpus."""

import gzip
import json
from pathlib import Path

import pytest
from tokenizers import Tokenizer

from corpusmill.commands.build_command import commands_of
from corpusmill.reading.data_set import DataSet
from corpusmill.reading.order.schedule import cut_stretches
from corpusmill.verification.check_data_set import verify
from tests.tools.data_files import manifest_of
from tests.tools.jobs import TWO_WORKERS, build, digests, rows_of

FLAGS = ("--order", "corpus", "--validation-share", "0.2", "--num-shards", "4")


@pytest.fixture
def texts(sample: Path) -> list[str]:
    """The sample's lines, each a document."""
    return [line.strip() for line in sample.read_text().splitlines() if line.strip()][:240]


@pytest.fixture
def corpus(texts: list[str], tmp_path: Path) -> list[Path]:
    """The documents in four files: one is compressed, and one is empty."""
    contents = [
        "".join(json.dumps({"text": text}) + "\n" for text in part).encode()
        for part in (texts[:100], [], texts[100:140], texts[140:])
    ]
    contents[2] = gzip.compress(contents[2], mtime=0)
    files = [tmp_path / name for name in ("a.jsonl", "b.jsonl", "c.jsonl.gz", "d.jsonl")]
    for file, content in zip(files, contents, strict=True):
        file.write_bytes(content)
    return files


def test_shards_hold_contiguous_parts_of_the_corpus(
    corpus: list[Path], texts: list[str], gpt_tokenizer: Path, tmp_path: Path
) -> None:
    """One after the other they are the documents in their order, however the job runs."""
    output, again = tmp_path / "output", tmp_path / "again"
    build(corpus, gpt_tokenizer, output, *FLAGS, objective="gpt")
    build(corpus, gpt_tokenizer, again, *FLAGS, *TWO_WORKERS, objective="gpt")
    assert digests(output) == digests(again)
    assert verify(output) == []
    tokenizer = Tokenizer.from_file(str(gpt_tokenizer))
    end = tokenizer.token_to_id("<|endoftext|>")
    samples = DataSet(output)
    assert samples.order().shard_sizes == cut_stretches(samples.shard_sizes, ())[0]
    expected = [[*tokenizer.encode(text, add_special_tokens=False).ids, end] for text in texts]
    shards = [
        [row["input_ids"] for row in rows_of(output, f"train-{number:05}*")] for number in range(4)
    ]
    assert min(map(len, shards)) > 20
    train = [row for shard in shards for row in shard]
    validation = [row["input_ids"] for row in rows_of(output, "validation-*")]
    assert [row for row in expected if row in train] == train
    assert [row for row in expected if row in validation] == validation
    assert len(train) + len(validation) == len(texts)
    [command] = commands_of(manifest_of(output))
    assert "--order corpus" in command

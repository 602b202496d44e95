"""What needs minutes on the emulators of both stores: `make test-stores`."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.tools.buckets import bucket
from tests.tools.growing import halve
from tests.tools.object_stores import Bucket

__all__ = ["bucket"]


@dataclass(frozen=True)
class Corpus:
    """Texts and a tokenizer on this machine.

    Attributes:
        first: a text.
        second: another one.
        tokenizer: a tokenizer.
    """

    first: Path
    second: Path
    tokenizer: Path

    def build(self, bucket: Bucket, *flags: str, text: Path | None = None) -> Sequence[str]:
        """Return the command that builds a data set of a text in a bucket."""
        return [
            "bert", "--input", str(text or self.first), "--tokenizer", str(self.tokenizer),
            "--output", f"{bucket.url}/out", "--max-seq-length", "64", "--duplicates", "1",
            "--num-shards", "2", "--workers", "1", *flags, "--", *bucket.beam_arguments,
        ]  # fmt: skip


@pytest.fixture
def corpus(sample: Path, tokenizer_path: Path, tmp_path: Path) -> Corpus:
    text = b"".join(sample.read_bytes().splitlines(keepends=True)[:70])
    return Corpus(*halve(text, tmp_path), tokenizer_path)

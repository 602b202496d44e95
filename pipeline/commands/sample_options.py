"""The options that say which part of a corpus a tokenizer is trained with."""

from dataclasses import dataclass

from corpusmill.arrays.randomness import MAX_SEED
from corpusmill.errors import UserError, check_option
from pipeline.sizes import parse_size


@dataclass(frozen=True)
class SampleOptions:
    """Which part of a corpus to train with; all of it if neither a share nor bytes are set."""

    sample: float | None = None
    """Share of the documents to train with, drawn uniformly from the whole corpus."""
    sample_bytes: int | str | None = None
    """About how many bytes of text to train with, such as 500MB or 2GB, from pieces of the corpus
    that are drawn uniformly. Nothing else of it is read, but compressed files are read to their
    end."""
    seed: int = 0
    """The same corpus and seed give the same sample."""

    def __post_init__(self) -> None:
        """Check each value.

        Raises:
            UserError: a value is out of range, or both a share and a number of bytes are set.
        """
        share, size = self.sample, self.bytes
        if share is not None and size is not None:
            raise UserError(
                f"--sample {share} --sample-bytes {self.sample_bytes}",
                "both set the size of the sample",
                "Give one of them",
            )
        if share is not None:
            check_option("sample", share, 0 < share <= 1, "more than 0, at most 1")
        check_option("seed", self.seed, 0 <= self.seed <= MAX_SEED, f"0 to {MAX_SEED}")

    @property
    def bytes(self) -> int | None:
        """How many bytes of text to train with; None for all."""
        size = self.sample_bytes
        return None if size is None else parse_size("--sample-bytes", size)

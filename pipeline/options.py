"""Options of the job that belong to no kernel; the command line is made from these dataclasses."""

import os
from dataclasses import dataclass

from corpusmill.arrays.randomness import MAX_SEED
from corpusmill.errors import UserError, check_option

# The names of shards have five digits.
MAX_SHARDS = 99_999


@dataclass(frozen=True)
class DatasetOptions:
    """What is read and what is written."""

    input: tuple[str, ...]
    """Files, globs or folders of UTF-8 text (plain, .gz, .bz2, .zst, .xz), local or gs:// or s3://;
    or, of the Hugging Face hub, hf://datasets/organization/name[@revision][/path or glob], or
    wikitext-2 or wikitext-103."""
    tokenizer: str
    """A Hugging Face tokenizer.json, a BERT vocab.txt, a vocab.json with merges.txt beside it, a
    .tiktoken or SentencePiece .model file, a folder with one of them; tiktoken:NAME; or the name of
    a model on the Hugging Face hub, with @REVISION or without."""
    output: str
    """Folder of the data set; new or empty."""
    num_shards: int | None = None
    """Files of the train split; by default one for each 256 MB of examples expected."""
    seed: int = 0
    """The same input, options and seed give the same bytes."""
    validation_share: float = 0.0
    """Share of documents that go to a validation split."""
    max_rejects: float | None = None
    """Most rejects allowed, as a number (100) or a share of the input's lines (0.001); None allows
    all."""
    replace: bool = False
    """Replace the data set that is in the output folder."""
    resume: bool = False
    """Go on with a run into the output folder that was stopped; where there is none, begin one."""

    def __post_init__(self) -> None:
        """Check each value.

        Raises:
            UserError: a value that no data set can be made with.
        """
        if not self.input:
            raise UserError("--input", "no path is given", "Name at least one file, glob or folder")
        if self.replace and self.resume:
            raise UserError(
                "--replace --resume",
                "one begins anew and the other goes on",
                "Give one of them",
            )
        shards, share = self.num_shards, self.validation_share
        check_option(
            "num-shards", shards, shards is None or 1 <= shards <= MAX_SHARDS, "1 to 99999"
        )
        check_option("seed", self.seed, 0 <= self.seed <= MAX_SEED, f"0 to {MAX_SEED}")
        check_option("validation-share", share, 0 <= share < 1, "0 up to, not including, 1")
        if self.max_rejects is not None and self.max_rejects < 0:
            raise UserError(f"--max-rejects {self.max_rejects}", "it is negative", "Give 0 or more")


@dataclass(frozen=True)
class RunOptions:
    """Where and how the job runs; nothing here changes a byte of the output."""

    runner: str = "local"
    """local (Beam's embedded runner; DirectRunner means the same), PrismRunner, FlinkRunner,
    DataflowRunner, or any other of Beam's runners; their own options follow after --."""
    workers: int = os.cpu_count() or 1
    """Most worker processes of the local runner."""
    range_bytes: int | None = None
    """Longest stretch of a file that one call reads; by default 64 MB, or less for small inputs."""
    min_bytes_per_worker: int = 32 * 2**20
    """Input that pays for one more worker process; 0 always starts all of them."""
    temp_location: str | None = None
    """Folder for temporary files, reachable by all workers; by default in the output folder."""
    wait: bool = True
    """Wait for the end of a job that runs elsewhere; --no-wait only submits it."""
    patience: int = 1800
    """Seconds without any progress after which a job on Flink is cancelled, since Flink is silent
    about most faults; 0 waits for ever."""
    progress: bool = True
    """Show a progress line where the output is a terminal."""

    def __post_init__(self) -> None:
        """Check each value.

        Raises:
            UserError: a value that no run can be made with.
        """
        check_option("workers", self.workers, self.workers >= 1, "1 or more")
        length = self.range_bytes
        check_option("range-bytes", length, length is None or length >= 1, "1 or more")
        check_option("patience", self.patience, self.patience >= 0, "0 or more")
        if self.min_bytes_per_worker < 0:
            raise UserError(
                f"--min-bytes-per-worker {self.min_bytes_per_worker}",
                "it is negative",
                "Give 0 or more",
            )

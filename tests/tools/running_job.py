"""A job as a process of its own, which a test stops in the middle."""

import time
from pathlib import Path

import psutil

from tests.tools.jobs import SMALL, Outcome, start

# The sample so many times keeps two processes busy for many seconds.
LONG = 400


class RunningJob:
    """A small BERT job of ranges of 200 KB.

    Args:
        text: the corpus.
        tokenizer: its tokenizer.json.
        output: its folder.
        flags: where it runs.
    """

    def __init__(self, text: Path, tokenizer: Path, output: Path, *flags: str) -> None:
        self.output = output
        given = ("--input", text, "--tokenizer", tokenizer, "--output", output, *SMALL)
        ranges = ("--duplicates", "20", "--range-bytes", "200000")
        self.process = start("bert", *given, *ranges, *flags)

    def wait_for(self, pattern: str) -> list[psutil.Process]:
        """The processes that it has started, once a file of that name was written."""
        while self.process.poll() is None and not list(self.output.rglob(pattern)):
            time.sleep(0.02)
        return psutil.Process(self.process.pid).children(recursive=True)

    def end(self, within_seconds: float) -> Outcome:
        """How it ends by itself; it is killed where it does not."""
        try:
            output, errors = self.process.communicate(timeout=within_seconds)
        finally:
            self.process.kill()
        return Outcome(self.process.returncode, output, errors)

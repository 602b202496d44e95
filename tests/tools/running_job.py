"""A job in a process of its own, which a test stops in the middle."""

import time
from pathlib import Path

import psutil

from tests.tools.forked_commands import ForkedCommand
from tests.tools.jobs import Outcome, command_of

# Copies of the sample that keep two processes busy for many seconds.
LONG = 400


class RunningJob:
    """A small BERT job with ranges of 200 KB.

    Args:
        text: the corpus.
        tokenizer: the tokenizer.json.
        output: the output folder.
        flags: where the job runs.
    """

    def __init__(self, text: Path, tokenizer: Path, output: Path, *flags: str) -> None:
        self.output = output
        ranges = ("--duplicates", "20", "--range-bytes", "200000")
        self.process = ForkedCommand(command_of([text], tokenizer, output, *ranges, *flags))

    def wait_for(self, pattern: str) -> list[psutil.Process]:
        """Wait for a file of that name, and return the processes that the job has started."""
        while self.process.poll() is None and not list(self.output.rglob(pattern)):
            time.sleep(0.02)
        return psutil.Process(self.process.pid).children(recursive=True)

    def end(self, within_seconds: float) -> Outcome:
        """Return how it ends by itself, or kill it after this time."""
        try:
            output, errors = self.process.communicate(timeout=within_seconds)
        finally:
            self.process.kill()
        return Outcome(self.process.returncode, output, errors)

"""A large data set from its build to an epoch: the time, the memory by stage, and the disk space.

    python -m benchmarks.scale.large --text books.txt [--gigabytes 20] [--objective bert] \
        [--only build,verify,append,drop,trace,epoch]

The corpus is the text again and again, in each copy under other words: some pairs of letters have
changed places, so that words, documents and their digests differ, and the lengths do not. Then the
data set is verified, a hundredth of text is added, a document is dropped, the rows of a step are
traced to their text, and an epoch is read, from an empty cache of 16 GB at most. Memory is that of
all processes (PSS), once a second; the space is that of the temporary files.
"""

import argparse
import json
import random
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from benchmarks.builds import FOLDER, make_tokenizer, read_manifest, remove
from benchmarks.console import CONSOLE, make_parser, print_table, report
from benchmarks.measure import Measurement, measure_command
from corpusmill.reading.data_set import DataSet
from corpusmill.reading.load.loader import Loader, make_batches

_FLAGS = {"bert": ("--duplicates", "1"), "gpt": ("--mode", "pack", "--max-seq-length", "1024")}
_RULE = ("--document-rule", "blank-lines", "--sentence-rule", "split", "--language", "en")
_STEP_ROWS = 32
_CACHE_BYTES = 16 * 10**9


def write_copies(text: Path, folder: Path, size: int) -> int:
    """Write copies of a text under altered words until they have a size, and return their number.

    Args:
        text: a file.
        folder: of the copies; those that exist are kept.
        size: in bytes.
    """
    folder.mkdir(parents=True, exist_ok=True)
    content = text.read_bytes()
    copies = -(-size // len(content))
    for copy in range(copies):
        path = folder / f"copy-{copy:03d}.txt"
        if not path.exists():
            path.write_bytes(alter(content, copy)[: size - copy * len(content)])
    return copies


def alter(content: bytes, copy: int) -> bytes:
    """Return a text in which two pairs of consonants and one of vowels have changed places."""
    if not copy:
        return content
    generator = random.Random(copy)
    letters = generator.sample(b"bcdfghklmnprstvw", 4) + generator.sample(b"aeiou", 2)
    table = bytearray(range(256))
    for one, other in zip(letters[::2], letters[1::2], strict=True):
        table[one], table[other] = other, one
    return content.translate(bytes(table))


class Stages:
    """Notes the memory and the temporary space of each stage of a run.

    Args:
        log: the file to which the run writes its log.
        output: its output folder.
    """

    def __init__(self, log: Path, output: Path) -> None:
        self._log, self._output = log, output
        self.memory: dict[str, int] = defaultdict(int)
        self.space = 0

    def observe(self, memory: int) -> None:
        """Note what the processes take now."""
        stage = self._find_stage()
        self.memory[stage] = max(self.memory[stage], memory)
        self.space = max(self.space, sum(_sizes(self._output)))

    def _find_stage(self) -> str:
        try:
            lines = self._log.read_text().splitlines()[-20:]
        except FileNotFoundError:
            return "start"
        events = (json.loads(line) for line in lines)
        return next((event["stage"] for event in [*events][::-1] if "stage" in event), "start")


def _sizes(output: Path) -> Iterator[int]:
    for folder in output.glob("v*/_temporary*"):
        for path in folder.rglob("*"):
            try:
                yield path.stat().st_size
            except FileNotFoundError:  # it has been removed
                continue


class Trial:
    """The commands of a trial, each measured.

    Args:
        options: of the command line.
    """

    def __init__(self, options: argparse.Namespace) -> None:
        self._objective: str = options.objective
        folder: Path = options.folder / "large"
        size = int(options.gigabytes * 1e9)
        self._corpus, self._more = folder / f"text-{size}", folder / f"more-{size}.txt"
        copies = write_copies(options.text, self._corpus, size)
        content = options.text.read_bytes()[: size // 100]
        self._more.write_bytes(alter(content, 1000 + copies))
        self._tokenizer = make_tokenizer(options.folder, options.text, self._objective)
        self._output = folder / f"{self._objective}-{size}"
        self._log = folder / "log.jsonl"

    def build(self) -> list[str]:
        """Build the data set."""
        remove(self._output)
        return self._measure("build", self._objective, "--input", self._corpus, *self._options())

    def verify(self) -> list[str]:
        """Compare every byte and row with the manifest."""
        return self._measure("verify", "verify", self._output)

    def append(self) -> list[str]:
        """Add a hundredth of text."""
        flags = ("--input", self._more, *self._options(), "--append", "--existing", "skip")
        return self._measure("append 1 %", self._objective, *flags)

    def drop(self) -> list[str]:
        """Drop the document at the beginning of the corpus."""
        files = read_manifest(self._output)["corpus"]["files"]
        command = ("--file", files[0]["path"], "--offset", "0", "--json", "--no-text")
        shown = self._run("trace", self._output, *command).output
        document = json.loads(shown.splitlines()[0])["document"]
        return self._measure("drop a document", "drop", self._output, "--document", document)

    def trace(self) -> list[str]:
        """Trace the rows of a step to their text."""
        flags = (
            "--step",
            "7",
            "--batch-size",
            _STEP_ROWS,
            "--input",
            self._corpus.parent,
            "--json",
        )
        return self._measure(f"trace {_STEP_ROWS} rows", "trace", self._output, *flags)

    def epoch(self) -> list[str]:
        """Read an epoch, unpacking all shards."""
        module = [sys.executable, "-m", "benchmarks.scale.large", "--text", "-"]
        measured = measure_command([*module, "--read", str(self._output)])
        return _row("an epoch", measured, note=measured.output.splitlines()[-1])

    def _options(self) -> tuple[object, ...]:
        files = ("--tokenizer", self._tokenizer, "--output", self._output, "--seed", "1")
        rule = _RULE if self._objective == "bert" else _RULE[:2]
        return (*files, *rule, *_FLAGS.get(self._objective, ()))

    def _run(self, *arguments: object, stages: Stages | None = None) -> Measurement:
        command = [sys.executable, "-m", "pipeline", *map(str, arguments)]
        return measure_command(command, observe=stages.observe if stages else None)

    def _measure(self, name: str, *arguments: object) -> list[str]:
        report(f"{name} ...")
        stages = Stages(self._log, self._output)
        self._log.unlink(missing_ok=True)
        is_job = arguments[0] not in ("trace", "verify")
        log = ("--log-file", self._log, "--log-format", "json", "--log-seconds", "5")
        measured = self._run(*arguments, *(log if is_job else ()), stages=stages)
        by_stage = " ".join(f"{stage} {bytes_ >> 20:,}" for stage, bytes_ in stages.memory.items())
        return _row(name, measured, stages.space, by_stage)


def _row(name: str, measured: Measurement, space: int = 0, note: str = "") -> list[str]:
    seconds = (f"{measured.seconds:,.1f}", f"{measured.processor_seconds:,.1f}")
    memory = (f"{measured.peak_mib:,.0f}", f"{measured.first_mib:,.0f}")
    return [name, *seconds, *memory, f"{space / 1e9:.1f}", note]


def read_epoch(folder: str) -> None:
    """Read an epoch of a data set, and print how long its first batch took."""
    began = time.perf_counter()
    cache = Path(folder).parent / "cache"
    remove(cache)
    data = DataSet(folder, cache_folder=cache, cache_bytes=_CACHE_BYTES)
    loader = Loader(make_batches(data, 256, seed=1))
    rows, first = 0, 0.0
    for batch in loader:
        first = first or time.perf_counter() - began
        rows += len(batch["input_ids"])
    remove(cache)
    print(f"first batch after {first:.1f} s, {rows:,} rows")


def main() -> None:
    """Measure each step, and print a table."""
    parser = make_parser(__doc__, folder=FOLDER, gigabytes=20.0, objective="bert", only="")
    parser.add_argument("--text", type=Path, required=True, help="a file of some hundred megabytes")
    parser.add_argument("--read", help="a data set of which only an epoch is read")
    options = parser.parse_args()
    if options.read:
        read_epoch(options.read)
        return
    trial = Trial(options)
    names = options.only.split(",") if options.only else [
        "build", "verify", "append", "drop", "trace", "epoch",
    ]  # fmt: skip
    rows = [getattr(trial, name)() for name in names]
    CONSOLE.print(f"{options.objective}, {options.gigabytes:g} GB of text")
    headings = ["step", "s", "processor s", "MiB", "first process", "temporary GB", "MiB by stage"]
    print_table(headings, rows)


if __name__ == "__main__":
    main()

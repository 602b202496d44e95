"""Memory by stage, of builds of a text and of several altered copies of it.

    python -m benchmarks.scale.memory --input books.txt [--times 1 2 4 8] [--command bert]

A text that is repeated has the same words and documents again; in an altered copy the letters of a
quarter of the words are exchanged, so that vocabulary and documents differ. Memory is the sum of
proportional set sizes (PSS) of all processes, sampled every half second; a stage is told by the
entries of the journal that the run has written when the sample is taken.
"""

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import psutil

from benchmarks.builds import FOLDER, MEGABYTE, make_tokenizer, remove
from benchmarks.console import make_parser, print_table, report
from transforms.recovery.journal import count_finished

_SECONDS = 0.5
_BLOCK_BYTES = 2**24
_VOWELS = np.frombuffer(b"aeiou", np.uint8)
_CONSONANTS = np.frombuffer(b"bcdfghjklmnpqrstvwxyz", np.uint8)
_ALTERED = 0.25


def write_copies(source: Path, target: Path, times: int) -> None:
    """Write a text several times, each time but the first with other words in place of a quarter.

    Args:
        source: the text.
        target: the file to write.
        times: how often it is written.
    """
    text = np.memmap(source, np.uint8, "r")
    with target.open("wb") as stream:
        for copy in range(times):
            rng, exchanged = np.random.default_rng(copy), np.arange(256, dtype=np.uint8)
            for letters in (_VOWELS, _CONSONANTS):
                exchanged[letters] = rng.permutation(letters)
            for start in range(0, len(text), _BLOCK_BYTES):
                block = np.array(text[start : start + _BLOCK_BYTES])
                is_letter = (block | 32 >= ord("a")) & (block | 32 <= ord("z"))
                words = np.cumsum(np.diff(is_letter, prepend=False) & is_letter)
                altered = rng.random(words[-1] + 1) < (_ALTERED if copy else 0)
                stream.write(np.where(altered[words], exchanged[block], block).tobytes())


def measure_stages(command: list[str], folder: Path) -> dict[str, tuple[int, int, int]]:
    """Run a command and sample its memory.

    Args:
        command: the command, which works in a temporary folder.
        folder: the folder.

    Returns:
        For each stage, the most MiB of all processes, of the first and of another one.

    Raises:
        RuntimeError: it failed.
    """
    peaks: dict[str, tuple[int, int, int]] = {}
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    while process.poll() is None:
        time.sleep(_SECONDS)
        sizes = [*_list_sizes(process.pid)]
        if sizes:
            stage, others = _name_stage(folder), max(sizes[1:], default=0)
            every, first, other = peaks.get(stage, (0, 0, 0))
            peaks[stage] = max(every, sum(sizes)), max(first, sizes[0]), max(other, others)
    if process.returncode:
        raise RuntimeError(f"{' '.join(command)} failed with {process.returncode}")
    return peaks


def _list_sizes(pid: int) -> Iterator[int]:
    """Yield the MiB of a process, and of those that it started."""
    try:
        root = psutil.Process(pid)
        for process in (root, *root.children(recursive=True)):
            yield process.memory_full_info().pss >> 20
    except psutil.Error:
        return


def _name_stage(folder: Path) -> str:
    """Return the stage that has finished most recently, by the journal of the run in a folder."""
    kinds = [kind for run in folder.glob("*") for kind in count_finished(str(run))]
    order = ("shard", "merge", "pool", "task")
    return next((f"after the first {kind}" for kind in order if kind in kinds), "before any task")


def main() -> None:
    """Build, and print a table."""
    parser = make_parser(__doc__, folder=FOLDER, command="bert", flags="")
    parser.add_argument("--input", type=Path, required=True, help="a text")
    parser.add_argument("--times", type=int, nargs="+", default=[1, 2, 4], help="copies of it")
    options = parser.parse_args()
    folder = options.folder.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer = make_tokenizer(folder, options.input, options.command)
    text, output, temporary = (folder / name for name in ("copies.txt", "copies", "temporary"))
    rows = []
    for times in options.times:
        report(f"{options.command}, {times} times ...")
        write_copies(options.input, text, times)
        temporary.mkdir(exist_ok=True)
        command = [sys.executable, "-m", "pipeline", options.command, "--input", str(text)]
        command += ["--tokenizer", str(tokenizer), "--output", str(output), "--replace"]
        command += ["--temp-location", str(temporary), *options.flags.split()]
        for stage, peak in measure_stages(command, temporary).items():
            rows.append((f"{text.stat().st_size / MEGABYTE:,.0f}", stage, *map(str, peak)))
        for path in (text, output, temporary):
            remove(path)
    print_table(("MB", "stage", "MiB of all", "driver", "largest worker"), rows)


if __name__ == "__main__":
    main()

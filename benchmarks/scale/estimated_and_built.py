"""What `inspect-corpus` predicts, beside what a real build has, writes and takes.

    python -m benchmarks.scale.estimated_and_built --input wiki.train.tokens --times 10

The input is repeated to a corpus of a few hundred megabytes, which is measured and then built. The
two take turns, because the speed of a shared machine changes. The bytes of temporary files are the
most that the folder for them held, without shards.
"""

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.builds import FOLDER, build, make_tokenizer, read_manifest
from benchmarks.console import make_parser, print_table
from benchmarks.measure import measure
from corpusmill.objectives.registry import OBJECTIVES

_SECONDS_BETWEEN_LOOKS = 0.1


def repeat_file(source: Path, times: int, folder: Path) -> Path:
    """Return a file that holds another one several times; it is written if the folder lacks it."""
    path = folder / f"{source.stem}-{times}.txt"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        path.write_bytes(source.read_bytes() * times)
    return path


@contextmanager
def watch_folder(folder: Path) -> Iterator[dict[str, int]]:
    """Measure the most bytes that a folder holds, without files whose names begin with "shard-"."""
    most, ended = {"bytes": 0}, threading.Event()

    def look() -> None:
        while not ended.wait(_SECONDS_BETWEEN_LOOKS):
            most["bytes"] = max(most["bytes"], sum(map(_size, folder.rglob("*"))))

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield most
    finally:
        ended.set()
        thread.join()


def _size(path: Path) -> int:
    try:
        return 0 if path.name.startswith("shard-") or path.is_dir() else path.stat().st_size
    except FileNotFoundError:
        return 0


def estimate(objective: str, corpus: Path, tokenizer: Path, folder: Path) -> dict[str, Any]:
    """Return the numbers of a corpus."""
    path = folder / "numbers.json"
    flags = ("--input", corpus, "--tokenizer", tokenizer, "--json", path)
    measure("pipeline", "inspect-corpus", *flags, objective, watch=False)
    numbers: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return numbers


def compare(
    objective: str, corpus: Path, tokenizer: Path, folder: Path, rounds: int
) -> dict[str, tuple[float, float]]:
    """Return (predicted, actual) by quantity."""
    output, temporary = folder / "output", folder / "temporary"
    seconds = list[tuple[float, float]]()
    for _ in range(rounds):
        predicted = estimate(objective, corpus, tokenizer, folder)
        temporary.mkdir(parents=True, exist_ok=True)
        with watch_folder(temporary) as most:
            flags = ("--temp-location", temporary)
            built = build(("pipeline", objective), corpus, tokenizer, output, *flags)
        spent = predicted["work"]["processor_seconds"].values()
        seconds.append((sum(spent), built.processor_seconds))
    manifest = read_manifest(output)
    split, work = manifest["splits"]["train"], predicted["work"]
    rows = predicted["build"]["splits"]["train"]
    return {
        "shards": (work["shards"], len(split["shards"])),
        "rows": (rows["rows"]["value"], split["rows"]),
        "tokens in rows": (rows["tokens"]["value"], split["tokens"]),
        "final bytes": (work["bytes"], sum(shard["bytes"] for shard in split["shards"])),
        "temporary bytes": (work["temporary_bytes"], most["bytes"]),
        "processor seconds": (median(a for a, _ in seconds), median(b for _, b in seconds)),
    }


def main() -> None:
    """Estimate and build, and print the table."""
    parser = make_parser(__doc__, folder=FOLDER / "estimated", times=10, rounds=3)
    parser.add_argument("--input", type=Path, required=True)
    parser.add_argument("--objective", choices=OBJECTIVES.names, nargs="+", default=["bert", "gpt"])
    options = parser.parse_args()
    corpus = repeat_file(options.input, options.times, options.folder)
    rows = []
    for objective in options.objective:
        tokenizer = make_tokenizer(options.folder, options.input, objective)
        began = time.perf_counter()
        result = compare(objective, corpus, tokenizer, options.folder, options.rounds)
        seconds = time.perf_counter() - began
        for name, (predicted, actual) in result.items():
            ratio = f"{predicted / actual:.3f}" if actual else "-"
            rows.append((f"{objective}, {name}", f"{predicted:,.0f}", f"{actual:,.0f}", ratio))
        rows.append((f"{objective}, seconds of this", "", f"{seconds:.0f}", ""))
    print_table(("", "estimated", "built", "ratio"), rows)


if __name__ == "__main__":
    main()

"""What `plan` predicts, beside what a real build has, writes and takes.

    python -m benchmarks.scale.planned_and_built --input wiki.train.tokens --times 10

The input is repeated to a corpus of a few hundred megabytes, which is planned and then built. The
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


def plan(objective: str, corpus: Path, tokenizer: Path, *flags: object) -> dict[str, Any]:
    """Return the numbers of a plan."""
    files = ("--input", corpus, "--tokenizer", tokenizer)
    output = measure("pipeline", "plan", objective, *files, *flags, "--json", watch=False).output
    numbers: dict[str, Any] = json.loads(output[output.index("{\n") :])
    return numbers


def compare(
    objective: str, corpus: Path, tokenizer: Path, folder: Path, rounds: int
) -> dict[str, tuple[float, float]]:
    """Return (predicted, actual) by quantity."""
    output, temporary = folder / "output", folder / "temporary"
    predicted, actual, seconds = {}, 0.0, list[tuple[float, float]]()
    for _ in range(rounds):
        numbers = plan(objective, corpus, tokenizer)
        temporary.mkdir(parents=True, exist_ok=True)
        with watch_folder(temporary) as most:
            flags = ("--temp-location", temporary)
            built = build(("pipeline", objective), corpus, tokenizer, output, *flags)
        predicted = numbers
        seconds.append((sum(numbers["processor_seconds"].values()), built.processor_seconds))
    manifest = read_manifest(output)
    counts, split = manifest["counts"], manifest["splits"]["train"]
    actual = sum(shard["bytes"] for shard in split["shards"])
    planned = predicted["counts"]
    return {
        "shards": (planned["shards"], len(split["shards"])),
        "documents": (planned["documents"], counts["tokenize.documents"]),
        "tokens": (planned["tokens"], counts["tokenize.tokens"]),
        "rows": (planned["rows"], counts["write.rows"]),
        "tokens in rows": (planned["row_tokens"], split["tokens"]),
        "final bytes": (predicted["bytes"]["output"], actual),
        "temporary bytes": (predicted["bytes"]["temporary"], most["bytes"]),
        "processor seconds": (median(a for a, _ in seconds), median(b for _, b in seconds)),
    }


def main() -> None:
    """Plan and build, and print the table."""
    parser = make_parser(__doc__, folder=FOLDER / "planned", times=10, rounds=3)
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
    print_table(("", "planned", "built", "ratio"), rows)


if __name__ == "__main__":
    main()

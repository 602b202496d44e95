"""Where workers wait: the stages of a build on this machine, and how long each worker was at work.

    corpusmill bert ... --workers 2 --log-level debug --log-format json --log-file build.log
    python -m benchmarks.job.timeline build.log

A line of the table is a stage, from the first of its bundles to the end of the last one. Before the
first stage the command reads its options and a sample of the text and starts the workers; after the
last one it writes the card, and removes temporary files.
"""

import argparse
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.console import print_table

# A step of the job in Beam's name of a stage, as in ref_AppliedPTransform_WritePool-WriteFiles_26.
_STEP = re.compile(r"(?:ref_AppliedPTransform_|[(+]|^)([A-Z]\w*?)[-/]")


class Bundle(NamedTuple):
    """What a worker did at once.

    Attributes:
        stage: the steps of its stage.
        worker: name of the worker.
        begin: seconds since the run was announced.
        end: likewise.
    """

    stage: str
    worker: str
    begin: float
    end: float


def read_bundles(lines: Iterable[str]) -> tuple[list[Bundle], float, int]:
    """Read the last run of a log.

    Returns:
        Its bundles in the order of their ends, how many seconds it took, and its workers.
    """
    bundles: list[Bundle] = []
    first = last = 0.0
    workers = 0
    for line in lines:
        event: dict[str, Any] = json.loads(line)
        time = datetime.fromisoformat(event["time"]).timestamp()
        match event.get("event"):
            case "run_started":
                bundles, first, workers = [], time, event["workers"]
            case "run_finished":
                last = time
            case "bundle_finished":
                stage = " + ".join(dict.fromkeys(_STEP.findall(event["stage"])))
                end = time - first
                bundles.append(Bundle(stage, event["worker"], end - event["seconds"], end))
    return bundles, last - first, workers


def list_rows(bundles: Sequence[Bundle], seconds: float, workers: int) -> Iterator[list[str]]:
    """Yield the cells of each stage, and of the whole run."""
    for stage, grouped in groupby(bundles, attrgetter("stage")):
        own = list(grouped)
        begin, end = min(bundle.begin for bundle in own), max(bundle.end for bundle in own)
        yield [stage, f"{begin:.1f}", *_measure(own, end - begin, workers)]
    yield ["the run", "0.0", *_measure(bundles, seconds, workers)]


def _measure(bundles: Sequence[Bundle], seconds: float, workers: int) -> list[str]:
    busy = sum(bundle.end - bundle.begin for bundle in bundles)
    waited = 1 - busy / (workers * seconds)
    return [f"{seconds:.1f}", f"{len(bundles):,}", f"{100 * waited:.0f} %"]


def main() -> None:
    """Print the table of a log."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("log", type=Path)
    bundles, seconds, workers = read_bundles(parser.parse_args().log.read_text().splitlines())
    headings = ("stage", "begins at second", "seconds", "bundles", "workers waited")
    print_table(headings, list_rows(bundles, seconds, workers))


if __name__ == "__main__":
    main()

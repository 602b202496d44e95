"""The requests of a job to an object store, by their purpose, on the emulators of the tests.

    python -m benchmarks.scale.object_store_requests
    MOTO_S3_DEFAULT_MAX_KEYS=1000 python -m benchmarks.scale.object_store_requests 5000 20000

The first table shows how many requests the driver sends for any input, and how many each further
file and shard takes. The second one is of builds of so many small objects, with requests that take
50 ms each, and shows how many are made at a time.
"""

import os
import re
import sys
import time
from collections import Counter, deque

from apache_beam.io.filesystems import FileSystems
from apache_beam.options.pipeline_options import PipelineOptions

from benchmarks.builds import CHECKOUT, SAMPLE
from benchmarks.console import print_table
from tests.tools.jobs import command_of, run_here
from tests.tools.object_stores import ObjectStores, Request, start_object_stores
from transforms.storage.files import map_ahead, write_file

# Of half a kilobyte each; shorter ones may hold no document.
_MOST_PARTS = 100
# The purpose of a request, by its object's name; the first pattern that matches counts.
_PURPOSES = (
    ("input", r"/in/"),
    ("tokenizer", r"tokenizer\.json|merges|vocab|special_tokens|tokenizer_config"),
    ("journal", r"/done-"),
    ("spilled documents", r"/spill-"),
    ("pool", r"/(candidates|pool)-"),
    ("shards", r"/shard-|train-\d"),
    ("who is at work, and the record", r"_run\.json|_files\.json"),
    ("plan and record", r"/plan|run\.json|/begin"),
    ("manifest, card, _SUCCESS", r"dataset\.json|README|_SUCCESS"),
)


def purpose_of(request: Request) -> str:
    """Return the purpose of a request."""
    if "prefix=" in request.query or "list-type" in request.query:
        return "lists"
    if request.path.endswith("/batch/storage/v1") or "delete" in request.query:
        return "deletions, in batches"
    text = f"{request.path}?{request.query}?{request.name}"
    return next((name for name, pattern in _PURPOSES if re.search(pattern, text)), "other")


def count(
    stores: ObjectStores, scheme: str, files: int, shards: int, seconds: float = 0.0
) -> tuple[Counter[str], float]:
    """Return the requests of a job, by purpose, and how many seconds it took.

    Args:
        stores: the emulators.
        scheme: "gs" or "s3".
        files: number of input files: parts of the sample, which repeat where they would be short.
        shards: number of shards.
        seconds: how long each request takes at least.
    """
    bucket, proxy = stores.create_bucket(scheme), stores.proxies[scheme]
    FileSystems.set_options(PipelineOptions(list(stores.beam_arguments())))
    lines = SAMPLE.read_bytes().splitlines(keepends=True)
    parts = min(files, _MOST_PARTS)

    def write(number: int) -> None:
        begin, end = (len(lines) * (number % parts + k) // parts for k in range(2))
        write_file(f"{bucket}/in/{number:05d}.txt", b"".join(lines[begin:end]))

    deque(map_ahead(write, range(files)), maxlen=0)
    tokenizer = f"{bucket}/tokenizer.json"
    write_file(tokenizer, (CHECKOUT / "tests" / "data" / "tokenizer.json").read_bytes())
    proxy.clear()
    proxy.seconds = seconds
    flags = ("--num-shards", str(shards), "--", *stores.beam_arguments())
    began = time.monotonic()
    run_here(*command_of([f"{bucket}/in/"], tokenizer, f"{bucket}/out", *flags))
    took = time.monotonic() - began
    requests = Counter(map(purpose_of, proxy.requests))
    proxy.clear()
    return requests, took


def main() -> None:
    """Count requests and print a table."""
    numbers = [(int(files), 3) for files in sys.argv[1:]]
    seconds = 0.05 if numbers else 0.0
    with start_object_stores() as stores:
        os.environ.update(stores.environment())
        counted = {
            f"{scheme}, {files} files, {shards} shards": count(
                stores, scheme, files, shards, seconds
            )
            for scheme in ("gs", "s3")
            for files, shards in numbers or ((4, 3), (24, 3), (4, 9))
        }
    columns = {name: requests for name, (requests, _) in counted.items()}
    purposes = sorted({purpose for counts in columns.values() for purpose in counts})
    rows = [
        [purpose, *(str(counts[purpose]) for counts in columns.values())] for purpose in purposes
    ]
    rows.append(["all", *(str(counts.total()) for counts in columns.values())])
    if seconds:
        rows.append(["seconds", *(f"{took:.1f}" for _, took in counted.values())])
    print_table(("requests for", *columns), rows)


if __name__ == "__main__":
    main()

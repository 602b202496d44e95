"""The requests of a job to an object store, by their purpose, on the emulators of the tests.

    python -m benchmarks.scale.object_store_requests

The table shows how many requests the driver sends for any input, and how many each further file and
shard takes.
"""

import os
import re
from collections import Counter

from apache_beam.io.filesystems import FileSystems
from apache_beam.options.pipeline_options import PipelineOptions

from benchmarks.builds import CHECKOUT, SAMPLE
from benchmarks.console import print_table
from tests.tools.jobs import command_of, run_here
from tests.tools.object_stores import ObjectStores, Request, start_object_stores
from transforms.storage.files import write_file

# The purpose of a request, by its object's name; the first pattern that matches counts.
_PURPOSES = (
    ("input", r"/in/"),
    ("tokenizer", r"tokenizer\.json|merges|vocab|special_tokens|tokenizer_config"),
    ("journal", r"/done-"),
    ("spilled documents", r"/spill-"),
    ("pool", r"/(candidates|pool)-"),
    ("shards", r"/shard-|train-\d"),
    ("claim", r"_RUNNING"),
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


def count(stores: ObjectStores, scheme: str, files: int, shards: int) -> Counter[str]:
    """Return the requests of a job, by purpose.

    Args:
        stores: the emulators.
        scheme: "gs" or "s3".
        files: number of input files that the sample is cut into.
        shards: number of shards.
    """
    bucket, proxy = stores.create_bucket(scheme), stores.proxies[scheme]
    FileSystems.set_options(PipelineOptions(list(stores.beam_arguments())))
    lines = SAMPLE.read_bytes().splitlines(keepends=True)
    for number in range(files):
        part = lines[number * len(lines) // files : (number + 1) * len(lines) // files]
        write_file(f"{bucket}/in/{number:04d}.txt", b"".join(part))
    tokenizer = f"{bucket}/tokenizer.json"
    write_file(tokenizer, (CHECKOUT / "tests" / "data" / "tokenizer.json").read_bytes())
    proxy.clear()
    flags = ("--num-shards", str(shards), "--", *stores.beam_arguments())
    run_here(*command_of([f"{bucket}/in/"], tokenizer, f"{bucket}/out", *flags))
    return Counter(map(purpose_of, proxy.requests))


def main() -> None:
    """Count requests and print the table."""
    with start_object_stores() as stores:
        os.environ.update(stores.environment())
        columns = {
            f"{scheme}, {files} files, {shards} shards": count(stores, scheme, files, shards)
            for scheme in ("gs", "s3")
            for files, shards in ((4, 3), (24, 3), (4, 9))
        }
    purposes = sorted({purpose for counts in columns.values() for purpose in counts})
    rows = [
        [purpose, *(str(counts[purpose]) for counts in columns.values())] for purpose in purposes
    ]
    rows.append(["all", *(str(counts.total()) for counts in columns.values())])
    print_table(("requests for", *columns), rows)


if __name__ == "__main__":
    main()

"""Requests to an object store, by stage and kind, of a whole job on the emulators of the tests.

    python -m benchmarks.scale.object_store_requests

What the store's bill and the scale sheet need: how many requests the driver sends, whatever the
input, and how many each file, range, segment and shard costs.
"""

import os
import re
from collections import Counter
from collections.abc import Iterable

from apache_beam.io.filesystems import FileSystems
from apache_beam.options.pipeline_options import PipelineOptions

from tests.conftest import CHECKOUT
from tests.tools.jobs import SMALL, run_here
from tests.tools.object_stores import ObjectStores, Request, start_object_stores
from transforms.storage.files import write_file

# What a request is for, by the name of its object, the first that fits.
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
    """What a request is for."""
    if "prefix=" in request.query or "list-type" in request.query:
        return "lists"
    if request.path.endswith("/batch/storage/v1") or "delete" in request.query:
        return "deletions, in batches"
    text = f"{request.path}?{request.query}?{request.name}"
    return next((name for name, of in _PURPOSES if re.search(of, text)), "other")


def count(stores: ObjectStores, scheme: str, files: int, shards: int) -> Counter[str]:
    """Requests of one job by purpose.

    Args:
        stores: the emulators.
        scheme: "gs" or "s3".
        files: the sample is cut into so many.
        shards: of the data set.
    """
    bucket, proxy = stores.create_bucket(scheme), stores.proxies[scheme]
    FileSystems.set_options(PipelineOptions(list(stores.beam_arguments())))
    lines = (CHECKOUT / "samples" / "wiki.sample.tokens").read_bytes().splitlines(keepends=True)
    for number in range(files):
        part = lines[number * len(lines) // files : (number + 1) * len(lines) // files]
        write_file(f"{bucket}/in/{number:04d}.txt", b"".join(part))
    tokenizer = f"{bucket}/tokenizer.json"
    write_file(tokenizer, (CHECKOUT / "tests" / "data" / "tokenizer.json").read_bytes())
    proxy.clear()
    done = run_here(
        "bert", "--input", f"{bucket}/in/", "--tokenizer", tokenizer, "--output", f"{bucket}/out",
        *SMALL, "--num-shards", str(shards), "--", *stores.beam_arguments(),
    )  # fmt: skip
    assert done.status == 0, done.errors
    return Counter(map(purpose_of, proxy.requests))


def tabulate(columns: dict[str, Counter[str]]) -> Iterable[str]:
    """Rows of a table in Markdown, one a purpose."""
    yield f"| requests for | {' | '.join(columns)} |"
    yield "|---|" + "---:|" * len(columns)
    for name in sorted({name for of in columns.values() for name in of}):
        yield f"| {name} | {' | '.join(str(of[name]) for of in columns.values())} |"
    yield f"| all | {' | '.join(str(of.total()) for of in columns.values())} |"


def main() -> None:
    """Print the table."""
    with start_object_stores() as stores:
        os.environ.update(stores.environment())
        columns = {
            f"{scheme}, {files} files, {shards} shards": count(stores, scheme, files, shards)
            for scheme in ("gs", "s3")
            for files, shards in ((4, 3), (24, 3), (4, 9))
        }
    print("\n".join(tabulate(columns)))


if __name__ == "__main__":
    main()

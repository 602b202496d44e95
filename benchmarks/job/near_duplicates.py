"""Near-duplicates that are left out, beside datatrove's MinHash, both held to all pairs.

The documents are paragraphs of a text in WikiText's layout, half of them with 0 to 40 % of their
words edited. All pairs are compared in plain Python. A removal is right if a document stays that is
like the removed one by .8; a document is missed if it stays beside an earlier one that it is like.
Ours is a build of `gpt` less the same build without the option, with one worker; datatrove's way is
its four steps with a worker each, as its example has them, for English by spaCy's words.
"""

import json
import shutil
import sys
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from benchmarks.builds import FOLDER, SAMPLE, build, make_tokenizer
from benchmarks.console import make_parser, print_table
from benchmarks.measure import measure
from benchmarks.rivals import label, name_problem, python_of

_MODULE, _RIVAL = "benchmarks.job.near_duplicates", "datatrove"
_LEAST = 0.8
_TABLE = "v1/provenance/near-duplicates.parquet"
_HEADINGS = ("", "removed", "precision", "recall at .8", "recall at .85", "processor seconds")


def write_documents(text: Path, folder: Path, number: int) -> tuple[Path, dict[int, str]]:
    """Write documents as JSON lines, and return the file and the texts by the offset of the line.

    Args:
        text: in WikiText's layout.
        folder: of the file.
        number: of documents.
    """
    from tests.tools.near_duplicates import plant_edits  # noqa: PLC0415  rivals lack the tests'
    from tests.tools.real_corpora import paragraphs  # noqa: PLC0415  packages

    folder.mkdir(parents=True, exist_ok=True)
    texts, offset = dict[int, str](), 0
    with (folder / "documents.jsonl").open("wb") as file:
        for one in plant_edits(paragraphs(text), number):
            texts[offset] = one
            offset += file.write(json.dumps({"id": str(offset), "text": one}).encode() + b"\n")
    return folder / "documents.jsonl", texts


def judge(
    removed: Collection[int], pairs: Mapping[int, list[tuple[int, float]]]
) -> tuple[str, str, str]:
    """Return the precision, and the recall of pairs above .8 and above .85.

    Args:
        removed: the documents that were left out.
        pairs: for each document the earlier ones that it is like by .8 or more.
    """
    both = [(a, b, share) for a, others in pairs.items() for b, share in others]
    right = {one for a, b, _ in both for one, other in ((a, b), (b, a)) if other not in removed}
    shares = [len(right & set(removed)) / max(1, len(removed))]
    for least in (_LEAST, 0.85):
        own = [(a, b) for a, b, share in both if share >= least]
        missed = {a for a, b in own if a not in removed and b not in removed}
        found = {one for pair in own for one in pair if one in removed and one in right}
        shares.append(len(found) / max(1, len(found) + len(missed)))
    precision, *recalls = (f"{share:.4f}" for share in shares)
    return precision, recalls[0], recalls[1]


def find_ours(documents: Path, tokenizer: Path, folder: Path) -> tuple[set[int], float]:
    """Build without near-duplicates; return these, and the processor seconds that it took."""
    seconds, near = [], ("--drop-near-duplicates", _LEAST)
    # The first build compiles the kernels, where none are there.
    for flags in (near, (), near):
        output = folder / "ours"
        command = ("pipeline", "gpt")
        built = build(command, documents, tokenizer, output, "--workers", 1, *flags)
        seconds.append(built.processor_seconds)
    return {*pq.read_table(output / _TABLE)["document"].to_pylist()}, seconds[2] - seconds[1]


def find_rivals(documents: Path, folder: Path) -> tuple[set[int], float]:
    """Run datatrove's steps; return what they remove, and the processor seconds that it took.

    Raises:
        NotInstalledError: it cannot be installed.
        RuntimeError: it fails.
    """
    python, output = python_of(_RIVAL), folder / "rival"
    shutil.rmtree(output, ignore_errors=True)
    run = measure(_MODULE, "--rival", documents, output, python=python)
    removed = set[int]()
    for path in (output / "removed").glob("*.jsonl"):
        removed |= {int(json.loads(line)["id"]) for line in path.read_text().splitlines()}
    return removed, run.processor_seconds


def run_rival(documents: Path, output: Path) -> None:
    """Run datatrove's steps one after the other in this process."""
    from datatrove.executor import LocalPipelineExecutor  # noqa: PLC0415  its own environment
    from datatrove.pipeline import dedup  # noqa: PLC0415
    from datatrove.pipeline.readers import JsonlReader  # noqa: PLC0415
    from datatrove.pipeline.writers import JsonlWriter  # noqa: PLC0415

    config = dedup.minhash.MinhashConfig()
    reader = JsonlReader(str(documents.parent), glob_pattern=documents.name)
    names = ("signatures", "buckets", "clusters", "removed", "kept")
    signatures, buckets, clusters, removed, kept = (str(output / name) for name in names)
    writer = {"compression": None}
    for tasks, steps in (
        (1, [reader, dedup.MinhashDedupSignature(signatures, config=config)]),
        (config.num_buckets, [dedup.MinhashDedupBuckets(signatures, buckets, config=config)]),
        (1, [dedup.MinhashDedupCluster(buckets, clusters, config=config)]),
        (1, [
            reader,
            dedup.MinhashDedupFilter(clusters, exclusion_writer=JsonlWriter(removed, **writer)),
            JsonlWriter(kept, **writer),
        ]),
    ):  # fmt: skip
        logs = str(output / "logs" / str(len(list(output.glob("logs/*")))))
        LocalPipelineExecutor(steps, tasks=tasks, workers=1, logging_dir=logs).run()


def main() -> None:
    """Compare both, or run the rival alone."""
    if sys.argv[1:2] == ["--rival"]:
        run_rival(*map(Path, sys.argv[2:]))
        return
    parser = make_parser(__doc__, documents=20_000, folder=str(FOLDER))
    parser.add_argument("--text", type=Path, default=SAMPLE, help="in WikiText's layout")
    arguments: Any = parser.parse_args()
    from tests.tools.near_duplicates import list_pairs  # noqa: PLC0415  as above

    folder = Path(arguments.folder) / "near-duplicates"
    documents, texts = write_documents(arguments.text, folder, arguments.documents)
    pairs = list_pairs(texts, _LEAST)
    tokenizer = make_tokenizer(Path(arguments.folder), arguments.text, "gpt")
    rows, name = list[tuple[str, ...]](), label(_RIVAL)
    removed, seconds = find_ours(documents, tokenizer, folder)
    rows.append(("corpusmill", f"{len(removed):,}", *judge(removed, pairs), f"{seconds:.1f}"))
    try:
        removed, seconds = find_rivals(documents, folder)
        rows.append((name, f"{len(removed):,}", *judge(removed, pairs), f"{seconds:.1f}"))
    except RuntimeError as error:
        rows.append((name, name_problem(error)))
    print_table(_HEADINGS, rows, f"{len(texts):,} documents")


if __name__ == "__main__":
    main()

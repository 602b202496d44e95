r"""What provenance costs: its bytes beside those of the data set, and the time of a build.

    python -m benchmarks.job.provenance [--text wiki.train.tokens] [--document-rule blank-lines] \
        [--wordpiece wordpiece.json] [--bpe bpe.json] [--only gpt] [--rounds 3]

Each data set is built with provenance and without it, in turn; the time is that of processors, of
all processes of the command. Without `--text` the text is synthetic.
"""

import argparse
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import median

from benchmarks.builds import (
    FOLDER,
    SAMPLE,
    WIKITEXT_2_BYTES,
    build,
    make_corpus,
    make_tokenizer,
    remove,
)
from benchmarks.console import make_parser, print_table
from benchmarks.measure import Measurement, median_ratio, take_turns

# Objectives with their flags.
WAYS: Mapping[str, tuple[str, ...]] = {
    "bert": ("bert",),
    "bert, 3 repeats": ("bert", "--duplicates", "3"),
    "bert, 128 tokens": ("bert", "--max-seq-length", "128"),
    "electra": ("electra",),
    "ernie": ("ernie",),
    "gpt, stream": ("gpt",),
    "gpt, pack": ("gpt", "--mode", "pack"),
    "t5": ("t5",),
}


def measure_sizes(folder: Path) -> tuple[int, int]:
    """Return the bytes of the files of provenance, and of all others."""
    sizes = {path: path.stat().st_size for path in folder.rglob("*") if path.is_file()}
    kept = sum(size for path, size in sizes.items() if path.parent.name == "provenance")
    return kept, sum(sizes.values()) - kept


def measure_way(
    arguments: argparse.Namespace, flags: Sequence[str]
) -> tuple[tuple[int, int], Mapping[bool, list[Measurement]]]:
    """Build a data set with provenance and without, in turn.

    Returns:
        Its bytes as by `measure_sizes`, and the measurements of builds by whether they have
        provenance.
    """
    objective, *others = flags
    given = arguments.bpe if objective == "gpt" else arguments.wordpiece
    tokenizer = given or make_tokenizer(arguments.folder, arguments.text, objective)
    if arguments.document_rule:
        others += ["--document-rule", arguments.document_rule]
    command, output = ("pipeline", objective), arguments.folder / "provenance-output"
    build(command, SAMPLE, tokenizer, output, *others)  # compiles kernels
    own = partial(build, command, arguments.text, tokenizer, output, *others)
    # The last build has provenance.
    runs = take_turns({False: partial(own, "--no-provenance"), True: own}, arguments.rounds)
    sizes = measure_sizes(output)
    remove(output)
    return sizes, runs


def list_cells(arguments: argparse.Namespace) -> Iterator[tuple[str, ...]]:
    """Yield the cells of each data set."""
    for name, flags in WAYS.items():
        if arguments.only in name:
            (kept, others), runs = measure_way(arguments, flags)
            without, seconds = (
                [run.processor_seconds for run in runs[has]] for has in (False, True)
            )
            added = median_ratio(seconds, without) - 1
            yield (
                name,
                f"{others:,}",
                f"{kept / others:.2%}",
                f"{median(without):.1f}",
                f"{median(seconds):.1f}",
                f"{added:+.1%}",
            )


def main() -> None:
    """Measure all ways, and print a table."""
    parser = make_parser(__doc__, folder=FOLDER, only="", rounds=3)
    parser.add_argument("--text", type=Path, help="a file or a folder")
    parser.add_argument("--document-rule", help="as builds take it; by default the objective's")
    parser.add_argument("--wordpiece", type=Path, help="a tokenizer.json; by default it is trained")
    parser.add_argument("--bpe", type=Path, help="likewise, for gpt")
    arguments = parser.parse_args()
    arguments.text = arguments.text or make_corpus(arguments.folder, WIKITEXT_2_BYTES)
    headings = (
        "", "bytes of the data set", "provenance", "processor seconds without",
        "processor seconds with", "added",
    )  # fmt: skip
    print_table(headings, list_cells(arguments))


if __name__ == "__main__":
    main()

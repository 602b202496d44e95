r"""The time to add 1 % of text to a data set, compared with the time to build the data set.

    python -m benchmarks.job.appending [--text books.txt] [--document-rule blank-lines] \
        [--tokenizer wordpiece.json] [--objective bert] [--bytes 100000000] \
        [--rounds 3]

The data set is built of the first bytes of the text, and a hundredth of them, from the text's end,
is added to it. How long the command takes to start is measured by adding a few documents only.
Without `--text` the text is synthetic. The processor time is that of all processes of a command.
"""

import argparse
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median

from benchmarks.builds import (
    FOLDER,
    MEGABYTE,
    SAMPLE,
    build,
    make_corpus,
    make_tokenizer,
    remove,
)
from benchmarks.console import make_parser, print_table
from benchmarks.measure import Measurement, measure, median_ratio, take_turns

_BUILD, _APPEND, _START = "build", "add 1 %", "add a few documents"
_SHARE = 100
_UNITS = ("seconds", "processor_seconds")

Runs = Mapping[str, Sequence[Measurement]]


def cut(text: Path, folder: Path, size: int) -> tuple[Path, Path, Path]:
    """Write the first bytes of a text, a hundredth of them from its end, and a few lines of these.

    All end and begin with whole lines.
    """
    files = (folder / "first.txt", folder / "more.txt", folder / "few.txt")
    folder.mkdir(parents=True, exist_ok=True)
    with text.open("rb") as stream:
        first = stream.read(size) + stream.readline()
        stream.seek(max(stream.tell(), text.stat().st_size - size // _SHARE))
        stream.readline()
        more = stream.read()
    few = more[: 2 * len(more) // _SHARE].rpartition(b"\n")[0] + b"\n"
    for file, content in zip(files, (first, more, few), strict=True):
        file.write_bytes(content)
    return files


def list_calls(arguments: argparse.Namespace) -> Mapping[str, Callable[[], Measurement]]:
    """List what is measured, by name."""
    folder, objective = arguments.folder / "appending", arguments.objective
    # The synthetic text is a twentieth longer than the data set's, so that there is text to add.
    text = arguments.text or make_corpus(arguments.folder, arguments.bytes * 21 // 20)
    first, more, few = cut(text, folder, arguments.bytes)
    tokenizer = arguments.tokenizer or make_tokenizer(arguments.folder, first, objective)
    command, output = ("pipeline", objective), folder / "output"
    flags = ("--document-rule", arguments.document_rule) if arguments.document_rule else ()

    def append(text: Path) -> Measurement:
        copy = folder / "copy"
        remove(copy)
        # No file of a data set is written in place.
        shutil.copytree(output, copy, copy_function=os.link)
        files = ("--input", text, "--tokenizer", tokenizer, "--output", copy)
        # The same books may have been read already.
        return measure(*command, *files, *flags, "--append", "--existing", "allow")

    build(command, SAMPLE, tokenizer, output, *flags)  # compiles kernels
    return {
        _BUILD: lambda: build(command, first, tokenizer, output, *flags),
        _APPEND: lambda: append(more),
        _START: lambda: append(few),
    }


def list_cells(runs: Runs) -> Iterator[tuple[str, ...]]:
    """Yield the cells of each command."""
    for name, own in runs.items():
        yield (
            name,
            *(
                cell
                for unit in _UNITS
                for cell in (f"{median(_values(own, unit)):.1f}", f"{_ratio(runs, name, unit):.1%}")
            ),
        )


def _ratio(runs: Runs, name: str, unit: str) -> float:
    return median_ratio(_values(runs[name], unit), _values(runs[_BUILD], unit))


def _values(runs: Sequence[Measurement], unit: str) -> list[float]:
    return [getattr(run, unit) for run in runs]


def main() -> None:
    """Measure, and print a table."""
    parser = make_parser(__doc__, folder=FOLDER, rounds=3)
    parser.add_argument("--text", type=Path, help="a file that is long enough")
    parser.add_argument("--document-rule", help="as builds take it; by default the objective's")
    parser.add_argument("--tokenizer", type=Path, help="a tokenizer.json; by default it is trained")
    parser.add_argument("--objective", default="bert")
    parser.add_argument("--bytes", type=int, default=100 * MEGABYTE, help="of the data set's text")
    arguments = parser.parse_args()
    runs = take_turns(list_calls(arguments), arguments.rounds)
    headings = ("", "seconds", "share", "processor seconds", "share of processor time")
    megabytes = arguments.bytes / MEGABYTE
    print_table(headings, list_cells(runs), f"{arguments.objective}, {megabytes:.0f} MB of text")


if __name__ == "__main__":
    main()

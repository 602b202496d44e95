"""How long it takes to trace 32 rows of two long documents with their text.

    python -m benchmarks.scale.traced_texts [--text BOOKS] [--bytes 2000000] [--rounds 3]

The documents are lines from the beginning of a text, by default a synthetic one, and one data set
of BERT's rows is built of them, and one of a token stream.
"""

from collections.abc import Iterator
from pathlib import Path

from benchmarks.builds import FOLDER, build, make_corpus, make_tokenizer, remove
from benchmarks.console import make_parser, print_table, verdict
from benchmarks.measure import measure, take_turns

_DOCUMENTS, _RANKS, _BATCH_SIZE, _BAR = 2, 4, 8, 5.0


def make_documents(text: Path, path: Path, num_bytes: int) -> Path:
    """Write documents of this many bytes, which blank lines separate, from a text's lines."""
    with text.open("rb") as source, path.open("wb") as sink:
        for _ in range(_DOCUMENTS):
            written = 0
            while written < num_bytes and (line := source.readline()):
                if line.strip():
                    written += sink.write(line)
            sink.write(b"\n")
    return path


def list_cells(
    documents: Path, tokenizers: dict[str, Path], rounds: int
) -> Iterator[tuple[str, ...]]:
    """Yield the cells of each objective."""
    sizes = ("--batch-size", _BATCH_SIZE, "--world-size", _RANKS, "--step", 0)
    calls = {}
    for objective, tokenizer in tokenizers.items():
        output = documents.with_name(f"{documents.stem}-{objective}")
        flags = ("--document-rule", "blank-lines", "--num-shards", 1)
        build(("pipeline", objective), documents, tokenizer, output, *flags)
        windows = ("--context-len", 512) if objective == "gpt" else ()
        arguments = ("trace", output, "--input", documents, *sizes, *windows)
        calls[objective] = lambda arguments=arguments: measure("corpusmill", *arguments)
    for objective, runs in take_turns(calls, rounds).items():
        run = sorted(runs, key=lambda run: run.seconds)[rounds // 2]
        is_met = verdict(is_met=run.seconds <= _BAR)
        numbers = (f"{run.processor_seconds:.2f}", f"{run.seconds:.2f}", f"{run.peak_mib:,.0f}")
        yield objective, *numbers, is_met


def main() -> None:
    """Measure and print a table."""
    parser = make_parser(__doc__, folder=FOLDER, rounds=3)
    parser.add_argument("--text", type=Path, help="a text of lines; a synthetic one by default")
    parser.add_argument("--bytes", type=int, default=2_000_000, help="of each document")
    arguments = parser.parse_args()
    folder = arguments.folder.resolve() / "traced-texts"
    remove(folder)
    folder.mkdir(parents=True)
    text = arguments.text or make_corpus(folder, 2 * _DOCUMENTS * arguments.bytes)
    documents = make_documents(text, folder / "documents.txt", arguments.bytes)
    tokenizers = {name: make_tokenizer(folder, documents, name) for name in ("bert", "gpt")}
    columns = ("", "processor seconds", "seconds", "MiB", "bar")
    title = f"32 rows of {_DOCUMENTS} documents of {arguments.bytes:,} bytes"
    print_table(columns, list_cells(documents, tokenizers, arguments.rounds), title)
    remove(folder)


if __name__ == "__main__":
    main()

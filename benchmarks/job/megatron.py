r"""A stream for Megatron-LM, beside its own `tools/preprocess_data_fast.py`, in the same rounds.

    python -m benchmarks.job.megatron --text books.txt --tokenizer gpt.json \
        --megatron MEGATRON_LM --python PYTHON

Both read one file of JSON lines and write .bin and .idx, which are compared byte for byte where
ours is one shard. MEGATRON_LM is a checkout of NVIDIA/Megatron-LM, and PYTHON the interpreter of an
environment with its requirements, gigatoken and awkward; without them ours is measured alone.

Seconds are those of the whole command. That of the peer imports PyTorch, which its own figure, the
seconds from its first line on, leaves out; both ratios are printed. Documents are consecutive
paragraphs of the text with at least 4,000 bytes, and the text is repeated until it has the size.
"""

import argparse
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from hashlib import sha256
from itertools import cycle
from pathlib import Path
from statistics import median

from tokenizers import Tokenizer

from benchmarks.builds import FOLDER, MEGABYTE, build, read_local, remove
from benchmarks.console import CONSOLE, make_parser, print_table, report
from benchmarks.measure import Measurement, measure_command, median_ratio, take_turns
from corpusmill.tokenization.sources.read import read_tokenizer

_PEER, _OWN = "preprocess_data_fast.py", "ours"
_DOCUMENT_BYTES = 4000
_BLOCK_BYTES = 2**20


def split_documents(text: Path) -> Iterator[str]:
    """Yield consecutive paragraphs of a text with at least 4,000 bytes together."""
    lines: list[str] = []
    size = 0
    with text.open(encoding="utf-8", errors="replace") as stream:
        for line in stream:
            if line == "\n" and size >= _DOCUMENT_BYTES:
                yield "".join(lines).strip()
                lines, size = [], 0
            lines.append(line)
            size += len(line.encode())


def write_records(text: Path, path: Path, num_bytes: int) -> Path:
    """Return a file of JSON lines of a size, which is written if it does not exist."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        report(f"writing {path}")
        with path.open("wb") as stream:
            for document in cycle(filter(None, split_documents(text))):
                line = json.dumps({"text": document}, ensure_ascii=False) + "\n"
                if stream.tell() + stream.write(line.encode()) >= num_bytes:
                    break
    return path


def find_end(arguments: argparse.Namespace) -> str:
    """Return the token that ends our documents."""
    file = read_tokenizer(str(arguments.tokenizer), read_local)
    assert file.special.eos_id is not None
    token = Tokenizer.from_str(file.json).id_to_token(file.special.eos_id)
    assert token is not None
    return token


def run_peer(arguments: argparse.Namespace, corpus: Path, folder: Path) -> Measurement:
    """Run Megatron-LM's script."""
    tokenizer = folder / "hugging-face"
    tokenizer.mkdir(parents=True, exist_ok=True)
    (tokenizer / "tokenizer.json").write_bytes(arguments.tokenizer.read_bytes())
    described = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": find_end(arguments)}
    (tokenizer / "tokenizer_config.json").write_text(json.dumps(described))
    megatron = arguments.megatron
    return measure_command([
        "env", f"PYTHONPATH={megatron}", str(arguments.python),
        f"{megatron}/tools/preprocess_data_fast.py", "--input", str(corpus),
        "--output-prefix", str(folder / "peer"), "--tokenizer-type", "HuggingFaceTokenizer",
        "--tokenizer-model", str(tokenizer), "--tokenizer-hf-no-include-special-tokens",
        "--use-gigatoken", "--append-eod",
    ])  # fmt: skip


def list_calls(
    arguments: argparse.Namespace, corpus: Path, folder: Path
) -> Mapping[str, Callable[[], Measurement]]:
    """List what is measured, by name."""
    flags = (
        "--output-format", "megatron", "--order", "corpus", "--num-shards", arguments.shards,
        "--workers", arguments.workers,
    )  # fmt: skip
    ours = partial(build, ("pipeline", "gpt"), corpus, arguments.tokenizer)
    calls = {_OWN: partial(ours, folder / "own", *flags)}
    if not (arguments.megatron and arguments.python):
        return calls
    return {_PEER: partial(run_peer, arguments, corpus, folder), **calls}


def digest(files: Sequence[Path]) -> str:
    """Return the digest of files, one after the other."""
    whole = sha256()
    for file in files:
        with file.open("rb") as stream:
            while block := stream.read(_BLOCK_BYTES):
                whole.update(block)
    return whole.hexdigest()


def compare(folder: Path, shards: int) -> Iterator[str]:
    """Yield whether our files are those of the peer."""
    for suffix in (".bin", ".idx") if shards == 1 else (".bin",):
        expected = digest([folder / f"peer_text_document{suffix}"])
        files = sorted((folder / "own").glob(f"v1/train-*{suffix}"))
        same = "equal" if digest(files) == expected else "different"
        yield f"{suffix} of {len(files)} shards and of the peer: {same}"


def list_cells(runs: Mapping[str, Sequence[Measurement]]) -> Iterator[tuple[str, ...]]:
    """Yield the cells of each row."""
    peer = runs.get(_PEER, ())
    for name, own in runs.items():
        seconds = [run.seconds for run in own]
        ratios = ("-", "-")
        if peer:
            whole = median_ratio([run.seconds for run in peer], seconds)
            inner = median_ratio([_elapsed(run) for run in peer], seconds)
            ratios = (f"{whole:.2f}", f"{inner:.2f}")
        yield (
            name,
            f"{median(seconds):.1f}",
            f"{median(run.processor_seconds for run in own):.1f}",
            f"{max(run.peak_mib for run in own):,.0f}",
            *ratios,
        )


def _elapsed(run: Measurement) -> float:
    """The seconds that the peer counts itself."""
    [seconds] = re.findall(r"Elapsed time: ([\d.]+) seconds", run.output)
    return float(seconds)


def main() -> None:
    """Measure, and print a table."""
    parser = make_parser(__doc__, folder=FOLDER, rounds=3, workers=2)
    parser.add_argument("--text", type=Path, required=True, help="a file of text")
    parser.add_argument("--tokenizer", type=Path, required=True, help="a tokenizer.json")
    parser.add_argument("--bytes", type=int, default=1000 * MEGABYTE, help="of the JSON lines")
    parser.add_argument("--shards", type=int, default=1)
    parser.add_argument("--megatron", type=Path, help="a checkout of NVIDIA/Megatron-LM")
    parser.add_argument("--python", type=Path, help="an interpreter with its requirements")
    arguments = parser.parse_args()
    folder = arguments.folder.resolve() / "megatron"
    records = folder / f"{arguments.text.stem}-{arguments.bytes}.jsonl"
    corpus = write_records(arguments.text, records, arguments.bytes)
    calls = list_calls(arguments, corpus, folder)
    take_turns(calls, 1)  # compiles kernels, and reads files for the first time
    runs = take_turns(calls, arguments.rounds)
    headings = (
        "", "seconds", "of processor", "peak MiB", "times the peer's speed", "without its imports",
    )  # fmt: skip
    print_table(headings, list_cells(runs), f"{corpus.stat().st_size:,} bytes")
    if _PEER in runs:
        for line in compare(folder, arguments.shards):
            CONSOLE.print(line)
    remove(folder / "own")


if __name__ == "__main__":
    main()

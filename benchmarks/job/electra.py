"""ELECTRA's examples by the job and in the original's way: rates, and the share of tokens dropped.

    python -m benchmarks.job.electra wiki.train.tokens tokenizer.json [--times 10] [--rounds 3]

The original's way is that of Google's build_pretraining_dataset.py with the plain Python builder of
the tests: it tokenizes each line by itself, makes lists padded to 128 tokens, and writes nothing.
It uses the tokenizers library in place of the original's tokenizer in Python, which takes two to
three times as long, and spends no time in TensorFlow.
"""

import json
import random
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tokenizers import Tokenizer

from benchmarks.builds import build, read_manifest
from benchmarks.console import CONSOLE, make_parser
from benchmarks.measure import measure, median_ratio, take_turns
from tests.corpusmill.objectives.reference_electra import (
    ExampleBuilder,
    RandomDraws,
    ReferenceExample,
)

MAX_LENGTH = 128


def read_examples(path: str, tokenizer: Tokenizer) -> Iterator[ReferenceExample]:
    """Yield the examples of a text; an empty line ends a document."""
    draws = RandomDraws(random.Random(1))
    builder = ExampleBuilder(MAX_LENGTH, MAX_LENGTH, draws)
    with Path(path).open(encoding="utf-8") as lines:
        for line in lines:
            text = line.strip()
            if text:
                ids = tokenizer.encode(text, add_special_tokens=False).ids
                yield from builder.add_sentence(ids)
            else:
                yield from builder.end_document()
    yield from builder.end_document()


def build_originals_way(path: str, tokenizer_path: str) -> dict[str, float]:
    """Make all examples as padded lists; return their number, the seconds and the tokens' loss."""
    tokenizer = Tokenizer.from_file(tokenizer_path)
    cls_id, sep_id = (tokenizer.token_to_id(token) for token in ("[CLS]", "[SEP]"))
    assert cls_id is not None
    assert sep_id is not None
    began = time.perf_counter()
    examples = kept = trimmed = 0
    for example in read_examples(path, tokenizer):
        input_ids = example.input_ids(cls_id, sep_id)
        zeros = [0] * (MAX_LENGTH - len(input_ids))
        row = {
            "input_ids": input_ids + zeros,
            "input_mask": [1] * len(input_ids) + zeros,
            "segment_ids": [0] * (len(example.first) + 2)
            + [1] * (len(input_ids) - len(example.first) - 2)
            + zeros,
        }
        examples += len(row) // 3
        kept += len(example.first) + len(example.second)
        trimmed += len(example.first_trimmed) + len(example.second_trimmed)
    seconds = time.perf_counter() - began
    return {"examples": examples, "seconds": seconds, "dropped": trimmed / (kept + trimmed)}


def run_originals_way(path: Path, tokenizer: Path) -> dict[str, float]:
    """Measure the original's way in a process of its own."""
    return measure("benchmarks.job.electra", path, tokenizer, "--plain").result


def run_job(path: Path, tokenizer: Path, output: Path) -> dict[str, float]:
    """Measure the whole command, from the shell to the end."""
    measurement = build(("pipeline", "electra"), path, tokenizer, output)
    counts = read_manifest(output)["counts"]
    return {
        "examples": measurement.examples,
        "seconds": measurement.seconds,
        "dropped": counts["build.trimmed_tokens"] / counts["tokenize.tokens"],
    }


def compare(path: Path, tokenizer: Path, times: int, rounds: int) -> None:
    """Measure both ways in turn and print the rates."""
    with TemporaryDirectory() as folder:
        text, output = Path(folder, "text"), Path(folder, "output")
        text.write_bytes(path.read_bytes() * times)
        run_job(text, tokenizer, output)  # compiles the kernels if they are not compiled
        runs = take_turns(
            {
                "original's way": partial(run_originals_way, text, tokenizer),
                "job": partial(run_job, text, tokenizer, output),
            },
            rounds,
        )
    rates = {way: [run["examples"] / run["seconds"] for run in runs[way]] for way in runs}
    for number in range(rounds):
        for way, results in runs.items():
            result = results[number]
            CONSOLE.print(
                f"{way:16}{result['examples']:10,.0f} examples{result['seconds']:8.1f} s"
                f"{rates[way][number]:10,.0f} examples/s"
                f"{result['dropped']:8.1%} of the tokens dropped"
            )
    ratio = median_ratio(rates["job"], rates["original's way"])
    CONSOLE.print(f"The job makes {ratio:.1f} times as many examples a second.")


def main() -> None:
    """Compare both ways, or run the original's alone."""
    parser = make_parser(__doc__, times=1, rounds=3)
    parser.add_argument("text", type=Path)
    parser.add_argument("tokenizer", type=Path)
    parser.add_argument("--plain", action="store_true", help="run the original's way alone")
    arguments: Any = parser.parse_args()
    if arguments.plain:
        print(json.dumps(build_originals_way(str(arguments.text), str(arguments.tokenizer))))
    else:
        compare(arguments.text, arguments.tokenizer, arguments.times, arguments.rounds)


if __name__ == "__main__":
    main()

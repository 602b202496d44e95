"""ELECTRA's examples by the job, and the original's way: rates, and the share of tokens dropped.

    python -m benchmarks.job.electra wiki.train.tokens tokenizer.json [TIMES]

Each way is a process of its own that takes the file, so many times over (1); rounds take turns. The
original's way is that of Google's build_pretraining_dataset.py with the plain-Python builder of the
tests: each line is tokenized by itself, examples are lists padded to 128 tokens, and nothing is
written. The tokenizers library stands in for the original's tokenizer in Python, which takes two to
three times as long, and no time is taken for TensorFlow.
"""

import json
import random
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from tokenizers import Tokenizer

from benchmarks.measure import measure
from tests.corpusmill.objectives.reference_electra import (
    ExampleBuilder,
    RandomDraws,
    ReferenceExample,
)

ROUNDS = 3
MAX_LENGTH = 128


def examples_of(path: str, tokenizer: Tokenizer) -> Iterator[ReferenceExample]:
    """Line after line; an empty one ends a document."""
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
    """Make all examples as padded lists, and say how many, how long it took and what was lost."""
    tokenizer = Tokenizer.from_file(tokenizer_path)
    cls_id, sep_id = (tokenizer.token_to_id(token) for token in ("[CLS]", "[SEP]"))
    assert cls_id is not None
    assert sep_id is not None
    began = time.perf_counter()
    examples = kept = trimmed = 0
    for example in examples_of(path, tokenizer):
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


def build_by_job(path: str, tokenizer: str, output: Path) -> dict[str, float]:
    """The whole command, from the shell to `_SUCCESS`."""
    command = [sys.executable, "-m", "pipeline", "electra", "--input", path]
    flags = ["--tokenizer", tokenizer, "--output", str(output), "--replace"]
    taken = measure([*command, *flags])
    manifest = json.loads((output / "dataset.json").read_text())
    counts = manifest["counts"]
    return {
        "examples": manifest["splits"]["train"]["rows"],
        "seconds": taken.seconds,
        "dropped": counts["build.trimmed_tokens"] / counts["tokenize.tokens"],
    }


def main(path: str, tokenizer: str, times: str = "1", way: str = "") -> None:
    """Measure both ways in turn; with a way, go that one and print what it took."""
    if way:
        print(json.dumps(build_originals_way(path, tokenizer)))
        return
    with TemporaryDirectory() as folder:
        text, output = Path(folder, "text"), Path(folder, "out")
        text.write_bytes(Path(path).read_bytes() * int(times))
        command = [
            sys.executable,
            "-m",
            "benchmarks.job.electra",
            str(text),
            tokenizer,
            "1",
            "plain",
        ]
        ratios = []
        build_by_job(str(text), tokenizer, output)  # compiles the kernels where nothing did yet
        for _ in range(ROUNDS):
            plain = json.loads(measure(command).output.strip().splitlines()[-1])
            job = build_by_job(str(text), tokenizer, output)
            rates = [of["examples"] / of["seconds"] for of in (plain, job)]
            ratios.append(rates[1] / rates[0])
            for name, of, rate in zip(("original's way", "job"), (plain, job), rates, strict=True):
                print(
                    f"{name:16}{of['examples']:10,.0f} examples{of['seconds']:8.1f} s"
                    f"{rate:10,.0f} examples/s{of['dropped']:8.1%} of the tokens dropped"
                )
        print(f"{median(ratios):.1f} times the rate of the original's way")


if __name__ == "__main__":
    main(*sys.argv[1:])

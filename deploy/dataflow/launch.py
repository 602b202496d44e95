"""What the flex template's launcher runs: its parameters as a command of the job.

The launcher gives everything as flags, `--name=value`: the template's parameters (metadata.json)
and Beam's own options. The former become the command line, the latter follow behind `--`.
"""

import shlex
import sys
from collections.abc import Sequence

# Of the template, in the order of the command line; the others are Beam's.
OURS = ("objective", "input", "tokenizer", "output", "flags")


def command_line(arguments: Sequence[str]) -> list[str]:
    """The arguments of `python -m pipeline`.

    Example:
        ["--objective=bert", "--input=gs://a/* gs://b/*", "--tokenizer=gs://t.json",
        "--output=gs://out", "--flags=--seed 1", "--region=us-central1"] gives
        ["bert", "--input", "gs://a/*", "gs://b/*", "--tokenizer", "gs://t.json", "--output",
        "gs://out", "--runner", "DataflowRunner", "--no-wait", "--seed", "1", "--",
        "--region=us-central1"].

    Args:
        arguments: as the launcher gives them.

    Raises:
        SystemExit: a parameter is missing.
    """
    given, beams = {}, []
    for argument in arguments:
        name, _, value = argument.removeprefix("--").partition("=")
        if name in OURS:
            given[name] = value
        else:
            beams.append(argument)
    missing = [name for name in ("objective", "input", "tokenizer", "output") if name not in given]
    if missing:
        raise SystemExit(f"error: the template's parameters lack {', '.join(missing)}")
    return [
        given["objective"],
        "--input", *shlex.split(given["input"]),
        "--tokenizer", given["tokenizer"],
        "--output", given["output"],
        "--runner", "DataflowRunner",
        # The launcher's machine ends once the job is submitted.
        "--no-wait",
        *shlex.split(given.get("flags", "")),
        "--", *beams,
    ]  # fmt: skip


if __name__ == "__main__":
    from pipeline.command_line import exit_now, main

    exit_now(main(command_line(sys.argv[1:])))

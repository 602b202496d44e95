"""The program of the flex template's launcher, which turns parameters into a command of the job.

The launcher passes everything as flags (`--name=value`): the template's parameters (metadata.json)
and Beam's options. The parameters become the command line; the options follow after `--`.
"""

import shlex
import sys
from collections.abc import Sequence

# The template's parameters, in the order of the command line; other flags are Beam's.
PARAMETERS = ("objective", "input", "tokenizer", "output", "flags")


def command_line(arguments: Sequence[str]) -> list[str]:
    """Return the arguments of `corpusmill`.

    Example:
        ["--objective=bert", "--input=gs://a/* gs://b/*", "--tokenizer=gs://t.json",
        "--output=gs://out", "--flags=--seed 1", "--region=us-central1"] gives
        ["bert", "--input", "gs://a/*", "gs://b/*", "--tokenizer", "gs://t.json", "--output",
        "gs://out", "--runner", "DataflowRunner", "--no-wait", "--seed", "1", "--",
        "--region=us-central1"].

    Args:
        arguments: of the launcher.

    Raises:
        SystemExit: a parameter is missing.
    """
    parameters, options = {}, []
    for argument in arguments:
        name, _, value = argument.removeprefix("--").partition("=")
        if name in PARAMETERS:
            parameters[name] = value
        else:
            options.append(argument)
    missing = [name for name in PARAMETERS[:-1] if name not in parameters]
    if missing:
        raise SystemExit(f"error: the template's parameters lack {', '.join(missing)}")
    return [
        parameters["objective"],
        "--input", *shlex.split(parameters["input"]),
        "--tokenizer", parameters["tokenizer"],
        "--output", parameters["output"],
        "--runner", "DataflowRunner",
        # The launcher ends once the job is submitted.
        "--no-wait",
        *shlex.split(parameters.get("flags", "")),
        "--", *options,
    ]  # fmt: skip


if __name__ == "__main__":
    from corpusmill.console.process import exit_now
    from pipeline.command_line import main

    exit_now(main(command_line(sys.argv[1:])))

"""The log of a run: what a program that follows it reads, and what stays out of it."""

import json
import logging
import re
import time
from contextlib import redirect_stderr
from io import StringIO
from pathlib import Path
from typing import Any

from corpusmill.console.process import USER_ERROR
from pipeline.console.progress import Counters, Work, show_progress
from pipeline.console.run_log import LogOptions, log_event, open_log
from tests.tools.jobs import build, read_manifest_json


def parse(log: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in log.splitlines()]


def events(log: str) -> dict[str, dict[str, Any]]:
    return {record["event"]: record for record in parse(log)}


def test_a_run_is_told_from_its_begin_to_its_balanced_counts(
    sample: Path, tokenizer_path: Path, output: Path
) -> None:
    outcome = build([sample], tokenizer_path, output, "--log-format", "json")
    records = events(outcome.errors)
    assert list(records) == ["run_started", "finding", "run_finished"]
    begin, _, end = records.values()
    assert begin["runner"] == "local"
    assert begin["bytes"] == sample.stat().st_size
    assert (begin["input"], begin["output"]) == ([str(sample)], [str(output)])
    manifest = read_manifest_json(output)
    assert end["status"] == 0
    assert end["counts"] == manifest["counts"]
    assert end["splits"]["train"]["rows"] == manifest["splits"]["train"]["rows"]
    assert end["output"] == str(output)
    for record in records.values():
        assert list(record)[:4] == ["time", "level", "logger", "message"]
        assert record["time"].endswith("+00:00")
    # The result is for people, and goes where it always goes.
    assert "the data set is in" in outcome.output


def test_a_refused_run_is_told_as_value_cause_and_cure(
    sample: Path, tokenizer_path: Path, output: Path
) -> None:
    output.mkdir(parents=True)
    (output / "mine").touch()
    flags = ("--log-format", "json")
    outcome = build([sample], tokenizer_path, output, *flags, status=USER_ERROR)
    [record] = parse(outcome.errors)
    assert record["event"] == "run_failed"
    assert record["level"] == "ERROR"
    assert record["status"] == USER_ERROR
    assert record["value"] == f"--output {output}"
    assert "not empty" in record["cause"]
    assert record["cure"]


def test_a_file_takes_the_log_and_people_keep_the_message(
    sample: Path, tokenizer_path: Path, tmp_path: Path, output: Path
) -> None:
    file = tmp_path / "run.jsonl"
    flags = ("--log-format", "json", "--log-file", file)
    assert build([sample], tokenizer_path, output, *flags).errors == ""
    build([sample], tokenizer_path, output, *flags, refused=(str(output),))
    assert list(events(file.read_text())) == [
        "run_started", "finding", "run_finished", "run_failed",
    ]  # fmt: skip


def test_text_is_quiet_unless_asked(sample: Path, tokenizer_path: Path, output: Path) -> None:
    assert build([sample], tokenizer_path, output).errors == ""
    outcome = build([sample], tokenizer_path, output, "--replace", "--log-level", "info")
    first, *findings, last = [line.split(" ", 3)[2:] for line in outcome.errors.splitlines()]
    assert all("(usually " in finding for _, finding in findings)
    assert [first, last] == [
        ["INFO", "pipeline: 0 MB in 1 task on local"],
        ["INFO", f"pipeline: {rows(output):,} examples in {output}"],
    ]


def test_workers_say_what_they_did(sample: Path, tokenizer_path: Path, output: Path) -> None:
    flags = ("--log-format", "json", "--log-level", "debug")
    outcome = build([sample], tokenizer_path, output, *flags)
    records = [
        record["message"] for record in parse(outcome.errors) if "reports" in record["logger"]
    ]
    size = sample.stat().st_size
    assert records[0] == f"task-0 begins: {sample.name} from 0 to {sample.name} {size}"
    assert re.fullmatch(rf"task-0 is done: seconds=\S+, read.bytes={size}, .*", records[1])
    made = [re.fullmatch(r"shard-\d is done: .*write.rows=(\d+)", record) for record in records[2:]]
    assert sum(int(entry.group(1)) for entry in made if entry) == rows(output)
    assert len(made) == 3


def rows(output: Path) -> int:
    return int(read_manifest_json(output)["splits"]["train"]["rows"])


def test_a_log_that_cannot_be_written_is_refused(
    sample: Path, tokenizer_path: Path, tmp_path: Path, output: Path
) -> None:
    for path in (tmp_path, "gs://bucket/log"):
        build([sample], tokenizer_path, output, "--log-file", path, refused=(f"--log-file {path}",))
    assert not output.exists()


def log_of(options: LogOptions) -> str:
    """What is logged of records of many origins."""
    errors = StringIO()
    with redirect_stderr(errors), open_log(options):
        for name in (
            "pipeline",
            "transforms.corpus.read",
            "apache_beam.x",
            "PrismRunner",
            "urllib3",
        ):
            logging.getLogger(name).info("info of %s", name)
            logging.getLogger(name).error("error of %s", name)
        logging.error("error of root")
    return errors.getvalue()


def test_what_beam_says_is_hidden_unless_asked_for() -> None:
    ours = ["error of pipeline", "error of transforms.corpus.read", "error of urllib3"]
    assert [record["message"] for record in parse(log_of(LogOptions("json", "warning")))] == ours
    info = [record["message"] for record in parse(log_of(LogOptions("json")))]
    assert info == ["info of pipeline", *ours]
    assert len(parse(log_of(LogOptions("json", "debug")))) == 11


def test_logging_is_as_it_was_behind_a_log() -> None:
    root = logging.getLogger()
    before, level = list(root.handlers), root.level
    log_of(LogOptions("json", "debug"))
    assert (root.handlers, root.level) == (before, level)


def follow(options: LogOptions, shown: bool = True) -> str:
    """What is logged of the progress of a run that an engine did some of twice."""
    errors, counters = StringIO(), Counters()
    with redirect_stderr(errors), open_log(options):
        log_event("run_started", "", {})
        with show_progress(counters, Work(bytes=1000, repeats=5), shown, options):
            counters.update("job", {"read.bytes": 500})
            time.sleep(0.2)
            counters.update("job", {"read.bytes": 1600, "tokenize.documents": 8})
            counters.update("job", {"build.passes": 55, "build.examples": 1234})
            time.sleep(0.2)
    return errors.getvalue()


def test_progress_is_logged_where_there_is_no_terminal() -> None:
    records = parse(follow(LogOptions("json", log_seconds=0.05)))[1:]
    assert {record["event"] for record in records} == {"progress"}
    first, last = records[0], records[-1]
    assert (first["stage"], first["share"]) == ("read", 0.15)
    assert first["counters"] == {"read.bytes": 500}
    # What was done twice is not more than all.
    assert (last["stage"], last["share"]) == ("commit", 1)
    assert last["counters"]["build.examples"] == 1234
    assert [record["seconds"] for record in records] == sorted(
        record["seconds"] for record in records
    )


def test_a_line_of_progress_is_for_people_and_promises_nothing() -> None:
    lines = follow(LogOptions(log_seconds=0.1)).splitlines()
    assert lines
    assert "INFO pipeline: 15%, read 0.0 of 0.0 MB, 0 examples, 0 a second" in lines[0]
    assert not any("left" in line for line in lines)


def test_progress_is_not_logged_where_it_is_not_wanted() -> None:
    assert follow(LogOptions(log_seconds=0.05), shown=False) == ""
    assert len(parse(follow(LogOptions("json", log_seconds=0.05), shown=False))) == 1

"""Two runs into one output folder at once: one wins whole, and the other says so."""

import json
import os
import signal
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from corpusmill.location import locate
from corpusmill.verification.check_data_set import verify
from pipeline.assembly import assemble_job
from pipeline.folders.file_run import FileRun
from tests.tools import jobs
from tests.tools.forked_commands import ForkedCommand
from tests.tools.jobs import build, command_of, digests, leftovers, wait_for

PROVENANCE = {"provenance/spans", "provenance/documents"}
TOKENIZER = {"tokenizer.json", "tokenizer_config.json"}


def start_and_stop(
    command: Sequence[str | Path], claim: Path, has_folder: bool = False
) -> ForkedCommand:
    """Return a run that is stopped.

    Args:
        command: the run.
        claim: the file of its claim.
        has_folder: whether it is stopped once it has begun in its temporary folder, and not already
            when it has made its claim.
    """
    run = ForkedCommand(command)
    while not claim.exists() or not claim.read_bytes():
        assert run.poll() is None
        time.sleep(0.001)
    folder = Path(json.loads(claim.read_bytes())["temp_folder"])
    while has_folder and not (folder / "plan.jsonl").exists():
        assert run.poll() is None
        time.sleep(0.001)
    run.send_signal(signal.SIGSTOP)
    return run


def move_away(claim: Path) -> None:
    """Let the run with a claim be one on another machine that is thought to be dead."""
    content = json.loads(claim.read_text())
    claim.write_text(json.dumps(content | {"host": "another"}))
    for path in (claim, *Path(content["temp_folder"]).glob("*")):
        os.utime(path, (0, 0))


@pytest.mark.parametrize(
    ("flags", "filled"),
    [(("--seed", "2", "--num-shards", "5"), False), (("--replace",), True)],
)
def test_of_two_runs_at_once_one_wins_whole(
    flags: tuple[str, ...], filled: bool, sample: Path, tokenizer_path: Path, output: Path
) -> None:
    first = ("--replace",) if filled else ()
    if filled:
        build([sample], tokenizer_path, output, "--seed", "3")
    both = [command_of([sample], tokenizer_path, output, *each) for each in (first, flags)]
    outcomes = list(map(wait_for, [ForkedCommand(command) for command in both]))
    won = [outcome.status == 0 for outcome in outcomes]
    assert any(won), outcomes
    for outcome in outcomes:
        # With --replace the second may come when the first one is through.
        if outcome.status:
            jobs.assert_refused(outcome, f"--output {output}")
    assert filled or not all(won)
    assert verify(output) == []
    names = {name.partition("-")[0] for name in leftovers(output)}
    described = {"README.md", "_SUCCESS", "dataset.json"}
    assert names == {*described, *TOKENIZER, "train", "provenance", *PROVENANCE}
    if not all(won):
        flags_of_winner = (first, flags)[won.index(True)]
        jobs.assert_same_bytes(output, [sample], tokenizer_path, *flags_of_winner)


def test_a_folder_that_a_run_is_at_work_in_is_refused(
    sample: Path, tokenizer_path: Path, output: Path
) -> None:
    command = command_of([sample], tokenizer_path, output)
    first = start_and_stop(command, output / "_RUNNING")
    try:
        before = leftovers(output)
        cause = f"another run (process {first.pid}) writes there"
        for flags in ((), ("--replace",), ("--resume",)):
            parts = (f"--output {output}", cause if flags else "")
            build([sample], tokenizer_path, output, *flags, refused=parts)
            assert leftovers(output) == before
    finally:
        first.send_signal(signal.SIGCONT)
    assert wait_for(first).status == 0
    assert verify(output) == []


@pytest.mark.parametrize("has_folder", [False, True])
def test_a_run_whose_folder_was_taken_meanwhile_leaves_nothing(
    has_folder: bool, sample: Path, tokenizer_path: Path, output: Path
) -> None:
    claim = output / "_RUNNING"
    first = start_and_stop(command_of([sample], tokenizer_path, output), claim, has_folder)
    move_away(claim)
    os.utime(claim)
    build([sample], tokenizer_path, output, "--replace", refused=("sign of life is 0 seconds",))
    os.utime(claim, (0, 0))
    build([sample], tokenizer_path, output, "--replace", "--seed", "2")
    whole = digests(output)
    first.send_signal(signal.SIGCONT)
    outcome = wait_for(first)
    assert outcome.status != 0
    assert "Traceback" not in outcome.errors
    assert digests(output) == whole
    assert verify(output) == []


def test_a_tokenizer_that_another_run_has_trained_meanwhile_stays(
    sample: Path, tmp_path: Path
) -> None:
    output = tmp_path / "t.json"
    claim = Path(FileRun(locate(str(output)), None).path, "_RUNNING")
    command: list[str | Path] = [
        "train-tokenizer", "--input", sample, "--output", output, "--vocab-size",
    ]  # fmt: skip
    first = start_and_stop([*command, "300"], claim)
    move_away(claim)
    jobs.run_here(*command, "400", "--replace")
    whole = output.read_bytes()
    first.send_signal(signal.SIGCONT)
    jobs.assert_refused(wait_for(first), f"--output {output}", "another run writes this file")
    assert output.read_bytes() == whole
    assert leftovers(tmp_path) == ["t.json"]


@pytest.mark.parametrize("temp_elsewhere", [False, True])
def test_a_folder_belongs_to_a_run_before_it_plans_its_work(
    temp_elsewhere: bool, sample: Path, tokenizer_path: Path, tmp_path: Path, output: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    def assemble(*arguments: Any, **options: Any) -> Any:
        """Another run begins while this one plans its work."""
        outcomes.append(jobs.build_apart([sample], tokenizer_path, output))
        return assemble_job(*arguments, **options)

    outcomes: list[jobs.Outcome] = []
    monkeypatch.setattr("pipeline.assembly.assemble_job", assemble)
    flags = ("--temp-location", tmp_path / "temp") if temp_elsewhere else ()
    build([sample], tokenizer_path, output, "--seed", "2", *flags)
    jobs.assert_refused(outcomes[0], "another run", "writes there")
    assert verify(output) == []


@pytest.mark.parametrize("has_folder", [False, True])
def test_of_two_that_resume_a_killed_run_at_once_one_finishes_it(
    has_folder: bool, sample: Path, tokenizer_path: Path, output: Path
) -> None:
    command = command_of([sample], tokenizer_path, output)
    run = start_and_stop(command, output / "_RUNNING", has_folder)
    run.send_signal(signal.SIGCONT)
    run.kill()
    wait_for(run)
    command = command_of([sample], tokenizer_path, output, "--resume")
    outcomes = list(map(wait_for, [ForkedCommand(command) for _ in range(2)]))
    assert any(outcome.status == 0 for outcome in outcomes), outcomes
    for outcome in outcomes:
        if outcome.status:
            jobs.assert_refused(outcome, f"--output {output}", "another run")
    assert verify(output) == []
    assert not list(output.glob("_temporary*")) + list(output.glob("_RUNNING*"))

"""Two runs into one output folder at once: one wins whole, and the other says so."""

import json
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
from pipeline.folders.standing import UnfinishedRun
from tests.tools import jobs
from tests.tools.data_files import digests_by_version
from tests.tools.forked_commands import ForkedCommand
from tests.tools.jobs import build, command_of, leftovers, wait_for


def start_and_stop(
    command: Sequence[str | Path], run_file: Path, has_folder: bool = False
) -> ForkedCommand:
    """Return a run that is stopped.

    Args:
        command: the run.
        run_file: the file in which it says what it does.
        has_folder: whether it is stopped once it has begun in its temporary folder, and not already
            when it has written that file.
    """
    run = ForkedCommand(command)
    while not run_file.exists() or not run_file.read_bytes():
        assert run.poll() is None
        time.sleep(0.001)
    folder = Path(json.loads(run_file.read_bytes())["temp_folder"])
    while has_folder and not (folder / "plan.jsonl").exists():
        assert run.poll() is None
        time.sleep(0.001)
    run.send_signal(signal.SIGSTOP)
    return run


@pytest.mark.parametrize(
    ("flags", "filled"), [(("--seed", "2", "--num-shards", "5"), False), (("--replace",), True)]
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
            assert f"--output {output}" in outcome.errors or "finished a data set" in outcome.errors
            assert "Traceback" not in outcome.errors
    assert filled or not all(won)
    assert verify(output) == []
    assert not [name for name in leftovers(output) if "_temporary" in name or "_run" in name]
    if not all(won):
        flags_of_winner = (first, flags)[won.index(True)]
        build([sample], tokenizer_path, output.with_name("alone"), *flags_of_winner)
        alone = digests_by_version(output.with_name("alone"))
        assert digests_by_version(output) == alone


def test_a_folder_that_a_run_is_at_work_in_is_refused(
    sample: Path, tokenizer_path: Path, output: Path
) -> None:
    command = command_of([sample], tokenizer_path, output)
    first = start_and_stop(command, output / "v1" / "_run.json")
    try:
        before = leftovers(output)
        cause = f"(process {first.pid} on "
        for flags in ((), ("--replace",), ("--resume",)):
            parts = (f"--output {output}: a run is at work there since ", cause)
            build([sample], tokenizer_path, output, *flags, refused=parts)
            assert leftovers(output) == before
    finally:
        first.send_signal(signal.SIGCONT)
    assert wait_for(first).status == 0
    assert verify(output) == []


def test_a_tokenizer_that_another_run_has_trained_meanwhile_stays(
    sample: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = tmp_path / "t.json"
    run_file = Path(FileRun(locate(str(output)), None).path, "_run.json")
    command: list[str | Path] = [
        "train-tokenizer", "--input", sample, "--output", output, "--vocab-size",
    ]  # fmt: skip
    first = start_and_stop([*command, "300"], run_file)
    with monkeypatch.context() as patch:  # as on another machine
        patch.setattr(UnfinishedRun, "is_alive", None)
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
    jobs.assert_refused(outcomes[0], "a run is at work there since")
    assert verify(output) == []


@pytest.mark.parametrize("has_folder", [False, True])
def test_of_two_that_resume_a_killed_run_at_once_one_finishes_it(
    has_folder: bool, sample: Path, tokenizer_path: Path, output: Path
) -> None:
    command = command_of([sample], tokenizer_path, output)
    run = start_and_stop(command, output / "v1" / "_run.json", has_folder)
    run.send_signal(signal.SIGCONT)
    run.kill()
    wait_for(run)
    command = command_of([sample], tokenizer_path, output, "--resume")
    outcomes = list(map(wait_for, [ForkedCommand(command) for _ in range(2)]))
    assert any(outcome.status == 0 for outcome in outcomes), outcomes
    for outcome in outcomes:
        if outcome.status:
            assert "Traceback" not in outcome.errors
    assert verify(output) == []
    assert not [*output.rglob("_temporary*"), *output.rglob("_run*")]

"""Two runs into one output folder at once: one wins whole, and the other says so."""

import json
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from corpusmill.dataset.verify import verify
from pipeline.command_line import USER_ERROR
from pipeline.preparation.assembly import assemble_job
from tests.tools.jobs import SMALL, Outcome, assert_refused, build, digests, leftovers, start


def run_both(
    first: tuple[str, ...], second: tuple[str, ...], *arguments: str | Path
) -> list[Outcome]:
    processes = [start("bert", *arguments, *SMALL, *flags) for flags in (first, second)]
    outcomes = []
    for process in processes:
        output, errors = process.communicate()
        outcomes.append(Outcome(process.returncode, output, errors))
    return outcomes


def start_and_stop(output: Path, *arguments: str | Path) -> tuple["subprocess.Popen[str]", Path]:
    """Return a run that is stopped once it has claimed the folder, and the file of its claim."""
    run = start("bert", *arguments, *SMALL)
    claim = output / "_RUNNING"
    while not claim.exists() or not claim.read_bytes():
        assert run.poll() is None
        time.sleep(0.01)
    run.send_signal(signal.SIGSTOP)
    return run, claim


@pytest.mark.parametrize(
    ("flags", "filled"),
    [((), False), (("--seed", "2", "--num-shards", "5"), False), (("--replace",), True)],
)
def test_of_two_runs_at_once_one_wins_whole(
    flags: tuple[str, ...], filled: bool, sample: Path, tokenizer_path: Path, tmp_path: Path
) -> None:
    output = tmp_path / "out"
    first = ("--replace",) if filled else ()
    if filled:
        assert build([sample], tokenizer_path, output, "--seed", "3").status == 0
    arguments = ("--input", sample, "--tokenizer", tokenizer_path, "--output", output)
    outcomes = run_both(first, flags, *arguments)
    won = [outcome.status == 0 for outcome in outcomes]
    assert any(won), outcomes
    for outcome in outcomes:
        # With --replace the second may come when the first one is through.
        if outcome.status:
            assert_refused(outcome, USER_ERROR, f"--output {output}")
    assert filled or not all(won)
    assert verify(output) == []
    names = {name.partition("-")[0] for name in leftovers(output)}
    assert names == {"README.md", "_SUCCESS", "dataset.json", "tokenizer.json", "train"}
    if not all(won):
        flags_of_winner = (first, flags)[won.index(True)]
        alone = tmp_path / "alone"
        assert build([sample], tokenizer_path, alone, *flags_of_winner).status == 0
        assert digests(output) == digests(alone)


@pytest.mark.parametrize("flags", [(), ("--replace",), ("--resume",)])
def test_a_folder_that_a_run_is_at_work_in_is_refused(
    flags: tuple[str, ...], sample: Path, tokenizer_path: Path, tmp_path: Path
) -> None:
    output = tmp_path / "out"
    arguments = ("--input", sample, "--tokenizer", tokenizer_path, "--output", output)
    first, _ = start_and_stop(output, *arguments)
    try:
        before = leftovers(output)
        outcome = build([sample], tokenizer_path, output, *flags)
        assert_refused(outcome, USER_ERROR, f"--output {output}")
        if flags:
            assert f"another run (process {first.pid}) writes into this folder" in outcome.errors
        assert leftovers(output) == before
    finally:
        first.send_signal(signal.SIGCONT)
    first.communicate()
    assert first.returncode == 0
    assert verify(output) == []


def test_a_run_whose_folder_was_taken_meanwhile_leaves_nothing(
    sample: Path, tokenizer_path: Path, tmp_path: Path
) -> None:
    output = tmp_path / "out"
    arguments = ("--input", sample, "--tokenizer", tokenizer_path, "--output", output)
    first, claim = start_and_stop(output, *arguments)
    # As where the first one is on another machine, and thought to be dead.
    content = json.loads(claim.read_text())
    claim.write_text(json.dumps(content | {"host": "another"}))
    outcome = build([sample], tokenizer_path, output, "--replace", "--seed", "2")
    assert outcome.status == 0, outcome.errors
    whole = digests(output)
    first.send_signal(signal.SIGCONT)
    _, errors = first.communicate()
    assert first.returncode != 0
    assert "Traceback" not in errors
    assert digests(output) == whole
    assert verify(output) == []


@pytest.mark.parametrize("temp_elsewhere", [False, True])
def test_a_run_that_comes_too_late_leaves_what_the_other_one_has_built(
    temp_elsewhere: bool,
    sample: Path,
    tokenizer_path: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    output = tmp_path / "out"
    command = ("--input", sample, "--tokenizer", tokenizer_path, "--output", output)

    def assemble(*arguments: Any, **options: Any) -> Any:
        """Another run begins and ends while this one has seen an empty folder."""
        _, errors = start("bert", *command, *SMALL).communicate()
        assert not errors
        whole.update(digests(output))
        return assemble_job(*arguments, **options)

    whole: dict[str, str] = {}
    monkeypatch.setattr("pipeline.commands.build_dataset.assemble_job", assemble)
    flags = ("--temp-location", tmp_path / "temp") if temp_elsewhere else ()
    outcome = build([sample], tokenizer_path, output, "--seed", "2", *flags)
    assert_refused(outcome, USER_ERROR, f"--output {output}", "meanwhile", "--replace")
    assert digests(output) == whole
    assert verify(output) == []

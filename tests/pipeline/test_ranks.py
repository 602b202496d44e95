"""The same command started several times by a launcher is one job: its bytes, and what is lost."""

import json
import shutil
import signal
import time
from pathlib import Path

import psutil
import pytest

from corpusmill.console.process import FAILURE, INTERRUPTED, USER_ERROR
from corpusmill.dataset.ownership import MEETING, MEETING_BEGIN
from corpusmill.errors import UserError
from corpusmill.job import build
from tests.tools.jobs import SMALL, SMALL_RANGES, command_of, digests, run_here
from tests.tools.knobs import knobs
from tests.tools.launching import ONE_WORKER, OPEN_MPI, TORCHRUN, Hosts, end_by

MANY_RANGES = (*ONE_WORKER, *SMALL_RANGES)
LOST = "it has ended, or gives no sign of life"


@pytest.fixture
def hosts(tmp_path: Path) -> Hosts:
    """This machine."""
    return Hosts(tmp_path)


@pytest.fixture(scope="module")
def long_text(sample: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A text for some seconds of work in ranges of 999 bytes."""
    path = tmp_path_factory.mktemp("long") / "text"
    path.write_bytes(sample.read_bytes() * 30)
    return path


def small_job(text: Path, tokenizer: Path, *flags: str) -> list[str | Path]:
    return command_of([text], tokenizer, "out", *MANY_RANGES, *flags)


def test_two_ranks_write_the_bytes_of_one_process(
    hosts: Hosts, built: Path, sample: Path, tokenizer_path: Path
) -> None:
    """And rank 0 alone says something."""
    log = ("--log-file", "job.log", "--log-level", "info")
    job = hosts.run(*small_job(sample, tokenizer_path, *log), ranks=2)
    assert digests(hosts.folder / "out") == digests(built)
    assert job.read(0).startswith("2 ranks on 1 host, 2 workers, ")
    assert job.read(1) == ""
    assert "in 51 tasks on local" in (hosts.folder / "job.log").read_text()
    assert "works for rank 0 on " in (hosts.folder / "job.rank1.log").read_text()


def test_six_commands_of_any_number_of_ranks(
    hosts: Hosts, sample: Path, tokenizer_path: Path, gpt_tokenizer: Path
) -> None:
    alone, words = hosts.folder / "alone", ("--input", sample, *MANY_RANGES)
    trained = ("--for", "t5", "--vocab-size", "500")
    commands: dict[str, tuple[str | Path, ...]] = {
        "tokenizer.json": ("train-tokenizer", *words, *trained),
        **{
            name: (name, *words, "--tokenizer", tokenizer_path, *SMALL[:2], "--num-shards", "3")
            for name in ("bert", "electra", "ernie")
        },
        "gpt": ("gpt", *words, "--tokenizer", gpt_tokenizer, "--num-shards", "3"),
        "t5": ("t5", *words, "--tokenizer", alone / "tokenizer.json", "--num-shards", "3"),
    }
    for name, command in commands.items():
        run_here(*command, "--output", alone / name)
    for ranks, launcher in ((2, TORCHRUN), (3, OPEN_MPI)):
        for name, command in commands.items():
            hosts.run(*command, "--output", f"{ranks}/{name}", ranks=ranks, launcher=launcher)
        assert digests(hosts.folder / str(ranks)) == digests(alone)


def test_a_rank_that_is_killed_is_done_without(
    hosts: Hosts, long_text: Path, tokenizer_path: Path
) -> None:
    """While it reads and while it builds; by the loss of itself, or of a worker."""
    shards = ("--num-shards", "24")
    run_here(*command_of([long_text], tokenizer_path, hosts.folder / "alone", *shards))
    expected = digests(hosts.folder / "alone")
    for moment, kills_worker in (("done-task-*", False), ("done-shard-*", True)):
        job = hosts.start(*small_job(long_text, tokenizer_path, *shards), ranks=3)
        job.wait_for(hosts.folder / "out", moment)
        if kills_worker:
            psutil.Process(job.processes[1].pid).children()[0].kill()
        else:
            job.kill(1)
        statuses = job.wait()
        assert statuses == [0, FAILURE if kills_worker else -signal.SIGKILL, 0], job.read(0)
        assert "The work goes on with 2 workers" in job.read(0)
        if kills_worker:
            assert "a worker of this rank has died" in job.read(1)
        assert "rank 1 on " in job.read(0), moment
        assert digests(hosts.folder / "out") == expected
        shutil.rmtree(hosts.folder / "out")


def test_workers_of_rank_0_that_die_leave_the_others_to_work(
    hosts: Hosts, long_text: Path, tokenizer_path: Path
) -> None:
    job = hosts.start(*small_job(long_text, tokenizer_path), ranks=2)
    job.wait_for(hosts.folder, "done-task-*")
    psutil.Process(job.processes[0].pid).children()[0].kill()
    assert job.wait() == [0, 0], job.read(0)
    assert "exit status -9. The work goes on with 1 worker" in job.read(0)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGUSR1])
def test_the_end_of_rank_0_ends_all_and_any_ranks_go_on(
    number: int, hosts: Hosts, long_text: Path, tokenizer_path: Path
) -> None:
    """Slurm signals all processes before the time limit, those of workers too."""
    job = hosts.start(*small_job(long_text, tokenizer_path), ranks=3)
    job.wait_for(hosts.folder, "done-task-*", 3)
    if number == signal.SIGKILL:
        job.kill(0)
        assert job.wait() == [-number, FAILURE, FAILURE]
        assert "rank 0 at 127.0.0.1:" in job.read(1)
        assert "the same command with --resume goes on" in job.read(2)
        assert (hosts.folder / "out" / MEETING).read_bytes().startswith(MEETING_BEGIN)
    else:
        assert end_by(job, number) == [INTERRUPTED] * 3
        assert "The same command with --resume continues from there" in job.read(0)
    resumed = hosts.run(*small_job(long_text, tokenizer_path, "--resume"), ranks=2)
    assert not (hosts.folder / "out" / MEETING).exists()
    assert "resuming; finished so far: " in resumed.read(0)
    run_here(*command_of([long_text], tokenizer_path, hosts.folder / "alone"))
    assert digests(hosts.folder / "out") == digests(hosts.folder / "alone")


def test_a_rank_that_is_started_again_works_in_the_next_attempt(
    hosts: Hosts, long_text: Path, tokenizer_path: Path
) -> None:
    """As a pod of an indexed Job is."""
    command = small_job(long_text, tokenizer_path, "--log-level", "info")
    job = hosts.start(*command, ranks=3)
    job.wait_for(hosts.folder, "done-task-*")
    again = Hosts(hosts.folder / "again")
    again.folder.mkdir()
    job.kill(2)
    named = ("--rank", "2", "--ranks", "3")
    absolute = [hosts.folder / word if word == "out" else word for word in command]
    back = again.start(*absolute, *named, ranks=1)
    joined = "works for rank 0"
    while joined not in back.read(0):
        time.sleep(0.1)
    job.kill(1)
    assert [*job.wait(), *back.wait()] == [0, -signal.SIGKILL, -signal.SIGKILL, 0], job.read(0)


def test_what_rank_0_refuses_ends_the_others_at_once(hosts: Hosts, sample: Path) -> None:
    (hosts.folder / "out").mkdir()
    (hosts.folder / "out" / "file").touch()
    for output, reason in (("new/folder", "missing.json"), ("out", "it is not empty")):
        words = small_job(sample, Path("missing.json"), "--replace")
        words[words.index("out")] = output
        job = hosts.start(*words, ranks=2)
        assert job.wait() == [USER_ERROR, USER_ERROR]
        assert reason in job.read(0)
        assert job.read(1) == ""
    assert not (hosts.folder / "new").exists()
    assert [path.name for path in (hosts.folder / "out").iterdir()] == ["file"]


def test_so_little_text_is_built_by_rank_0_alone(
    hosts: Hosts, built: Path, sample: Path, tokenizer_path: Path
) -> None:
    hosts.run(*command_of([sample], tokenizer_path, "out"), "--workers", "1", ranks=3)
    assert digests(hosts.folder / "out") == digests(built)


def test_documents_are_removed_by_all_ranks(
    hosts: Hosts, sample: Path, gpt_tokenizer: Path
) -> None:
    command = command_of([sample], gpt_tokenizer, "out", "--mode", "pack", objective="gpt")
    hosts.run(*command, *ONE_WORKER, ranks=2)
    job = hosts.run("drop", "out", "--where", "length < 1000", *ONE_WORKER, ranks=2)
    assert "2 ranks on 1 host" in job.read(0)
    assert "removed" in job.read(0)
    run_here("verify", hosts.folder / "out")


def test_rank_0_that_does_not_come_is_told_with_what_to_check(
    hosts: Hosts, sample: Path, tokenizer_path: Path
) -> None:
    command = small_job(sample, tokenizer_path, "--rank", "1", "--ranks", "2")
    with knobs(seconds_to_meet=1):
        job = hosts.start(*command, ranks=1)
        assert job.wait() == [FAILURE]
    told = "error: rank 1: rank 0 was not met within 1 second by way of "
    assert job.read(0).startswith(f"{told}{hosts.folder}/out/_ranks.json. Check that ")
    assert "--rank-address" in job.read(0)


def test_ranks_that_do_not_come_are_done_without(
    hosts: Hosts, built: Path, sample: Path, tokenizer_path: Path
) -> None:
    command = small_job(sample, tokenizer_path, "--rank", "0", "--ranks", "3")
    with knobs(seconds_to_meet=2):
        job = hosts.start(*command, ranks=1)
        assert job.wait() == [0]
    assert "ranks that have not come, and are not waited for any more: 1, 2" in job.read(0)
    assert digests(hosts.folder / "out") == digests(built)


def test_work_of_n_ranks_is_estimated_on_one_machine(
    hosts: Hosts, sample: Path, tokenizer_path: Path
) -> None:
    numbers = hosts.folder / "numbers.json"
    corpus = ("--input", sample, "--tokenizer", tokenizer_path, "--workers", "2")
    sizes = ("--ranks", "64", "--scale-to", "1TB", "--json", numbers)
    run_here("inspect-corpus", *corpus, *sizes)
    assert json.loads(numbers.read_text())["work"]["workers"] == 128


def test_a_program_is_no_rank(sample: Path, tokenizer_path: Path, output: Path) -> None:
    with pytest.raises(UserError, match=r"^ranks=2: only the command corpusmill"):
        build("bert", input=sample, tokenizer=tokenizer_path, output=output, ranks=2)


def test_a_rank_that_cannot_be_known_is_refused(sample: Path, tokenizer_path: Path) -> None:
    for flags, refused in (
        (("--rank", "1"), ("--rank 1: nothing says how many ranks there are", "--ranks N")),
        (("--ranks", "2"), ("--ranks 2: no launcher says which", "--rank N")),
        (("--rank", "2", "--ranks", "2"), ("--rank 2: ranks are counted from 0",)),
        (("--ranks", "2", "--runner", "PrismRunner"), ("--runner PrismRunner", "--ranks out")),
    ):
        run_here(*small_job(sample, tokenizer_path, *flags), refused=refused)

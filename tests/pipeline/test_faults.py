"""What a user sees when something is wrong: one message, a status, and nothing half-written."""

import bz2
import gzip
import json
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pyarrow.parquet as pq
import pytest

from pipeline.__main__ import FAILURE, INTERRUPTED, USER_ERROR
from tests.pipeline.jobs import SMALL, Outcome, build, digests, leftovers, run_here, start


def assert_refused(outcome: Outcome, status: int, *parts: str) -> None:
    """One line that names the value, the cause and the cure, and nothing else."""
    assert outcome.status == status, outcome.errors
    assert "Traceback" not in outcome.errors
    [message] = [line for line in outcome.errors.splitlines() if line.strip()]
    assert message.startswith("error: ")
    for part in parts:
        assert part in message


def rows(output: Path) -> int:
    return sum(pq.read_metadata(path).num_rows for path in output.glob("*.parquet"))


def rejects(output: Path) -> list[dict[str, object]]:
    lines = (output / "rejects" / "rejects.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


@pytest.fixture
def output(tmp_path: Path) -> Path:
    return tmp_path / "new" / "out"


# Records that are bad


def test_undecodable_bytes_become_rejects(
    sample: Path, tokenizer_path: Path, tmp_path: Path, output: Path
) -> None:
    text = tmp_path / "text"
    text.write_bytes(sample.read_bytes() + b"\n\nThis \xff is not text .\nThis is .\n")
    outcome = build([text], tokenizer_path, output, "--range-bytes", "9000")
    assert outcome.status == 0, outcome.errors
    [reject] = rejects(output)
    assert (reject["file"], reject["reason"]) == (str(text), "invalid-utf-8")
    assert reject["offset"] == sample.stat().st_size + 2
    manifest = json.loads((output / "dataset.json").read_text())
    assert manifest["counts"]["read.rejects"] == 1
    assert "rejects/rejects.jsonl" in {entry["file"] for entry in manifest["files"]}


@pytest.mark.parametrize(("suffix", "compress"), [(".gz", gzip.compress), (".bz2", bz2.compress)])
def test_a_truncated_file_is_used_up_to_the_damage(
    suffix: str, compress: object, tokenizer_path: Path, tmp_path: Path, output: Path
) -> None:
    lines = [f"Line {number} is about {number * number} .\n\n" for number in range(120_000)]
    whole = compress("".join(lines).encode())  # type: ignore[operator]
    damaged = tmp_path / f"text{suffix}"
    damaged.write_bytes(whole[: len(whole) * 3 // 4])
    outcome = build([damaged], tokenizer_path, output)
    assert outcome.status == 0, outcome.errors
    [reject] = rejects(output)
    assert (reject["file"], reject["reason"]) == (str(damaged), "damaged-compression")
    assert rows(output) > 50_000


def test_a_line_above_the_limit_becomes_a_reject(
    sample: Path, tokenizer_path: Path, tmp_path: Path, output: Path
) -> None:
    text = tmp_path / "text"
    text.write_bytes(b"long " * 500_000 + b"\n\n" + sample.read_bytes())
    flags = ("--max-line-bytes", "1000000", "--range-bytes", "300000")
    outcome = build([text], tokenizer_path, output, *flags)
    assert outcome.status == 0, outcome.errors
    [reject] = rejects(output)
    assert (reject["offset"], reject["length"]) == (0, 2_500_000)
    assert reject["reason"] == "line-too-long"
    assert rows(output) > 300


def test_a_document_of_a_million_lines_is_cut(
    tokenizer_path: Path, tmp_path: Path, output: Path
) -> None:
    text = tmp_path / "text"
    text.write_text("a b c .\n" * 1_000_000)
    flags = ("--duplicates", "1", "--max-document-bytes", "500000")
    outcome = build([text], tokenizer_path, output, *flags)
    assert outcome.status == 0, outcome.errors
    counts = json.loads((output / "dataset.json").read_text())["counts"]
    assert counts["read.sentences"] == 1_000_000
    assert counts["read.documents"] == counts["read.cut_documents"] + 1 == 15
    assert rows(output) > 1_000_000 * 4 // 64


@pytest.mark.parametrize(("allowed", "fine"), [("3", True), ("2", False), ("0.5", True), ("0.01", False), ("0", False)])
def test_more_rejects_than_allowed_are_an_error(
    allowed: str, fine: bool, sample: Path, tokenizer_path: Path, tmp_path: Path, output: Path
) -> None:
    text = tmp_path / "text"
    lines = sample.read_bytes().splitlines(keepends=True)[:100]
    text.write_bytes(b"".join(lines) + b"\xff\n" * 3)
    outcome = build([text], tokenizer_path, output, "--max-rejects", allowed)
    if fine:
        assert outcome.status == 0, outcome.errors
        return
    assert_refused(outcome, USER_ERROR, f"--max-rejects {allowed}", "3 of 103 input lines", "Mend")
    assert leftovers(tmp_path) == ["text"] or not (output / "_SUCCESS").exists()
    assert not output.exists() or leftovers(output) == []


# Inputs, tokenizers and folders that are none


def test_empty_files_among_others_are_no_fault(
    sample: Path, tokenizer_path: Path, tmp_path: Path
) -> None:
    (tmp_path / "a").write_text("")
    (tmp_path / "b").write_bytes(sample.read_bytes())
    (tmp_path / "c").write_text("\n\n")
    outcome = build([tmp_path / name for name in "abc"], tokenizer_path, tmp_path / "out")
    assert outcome.status == 0, outcome.errors
    assert rows(tmp_path / "out") > 300


def test_a_corpus_without_any_sentence_is_an_empty_data_set(
    tokenizer_path: Path, tmp_path: Path, output: Path
) -> None:
    (tmp_path / "text").write_text("\n = Title = \n\n")
    outcome = build([tmp_path / "text"], tokenizer_path, output)
    assert outcome.status == 0, outcome.errors
    assert rows(output) == 0
    assert len(list(output.glob("*.parquet"))) == 3


@pytest.mark.parametrize(
    ("make", "cause"),
    [
        ("nothing", "no such file"),
        ("empty file", "all files are empty"),
        ("empty folder", "the folder holds no file"),
        ("dangling link", "it cannot be read (No such file or directory)"),
        ("folder with a dangling link", "it cannot be read (No such file or directory)"),
        ("device", "it is no regular file"),
    ],
)
def test_an_input_that_is_none_is_refused(
    make: str, cause: str, tokenizer_path: Path, tmp_path: Path, output: Path
) -> None:
    given = tmp_path / "given"
    if make == "empty file":
        given.write_text("")
    elif make == "empty folder":
        given.mkdir()
    elif make == "dangling link":
        given.symlink_to("nowhere")
    elif make == "folder with a dangling link":
        given.mkdir()
        (given / "text").write_text("Text .")
        (given / "link").symlink_to("nowhere")
    elif make == "device":
        given = Path("/dev/null")
    outcome = build([given], tokenizer_path, output)
    assert_refused(outcome, USER_ERROR, f"--input {given}", cause)
    assert not output.exists()


@pytest.mark.parametrize(
    ("content", "cause"),
    [
        (None, "no such file"),
        (b"", "the file is empty"),
        (b"not json", "it is not JSON"),
        (b'{"a": 1}', "it is JSON, but describes no tokenizer"),
        (b'{"model": {"type": "Unheard"}}', "the tokenizers library"),
        (b"\xff\xfe", "it is not"),
    ],
)
def test_a_tokenizer_that_is_none_is_refused(
    content: bytes | None, cause: str, sample: Path, tmp_path: Path, output: Path
) -> None:
    file = tmp_path / "tokenizer.json"
    if content is not None:
        file.write_bytes(content)
    outcome = build([sample], file, output)
    assert_refused(outcome, USER_ERROR, f"--tokenizer {file}", cause, "train-tokenizer")
    assert not output.exists()


def test_a_tokenizer_without_a_mask_is_refused(sample: Path, tmp_path: Path, output: Path) -> None:
    (tmp_path / "vocab.txt").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\nword\n")
    outcome = build([sample], tmp_path / "vocab.txt", output)
    assert_refused(outcome, USER_ERROR, str(tmp_path / "vocab.txt"), "[MASK]")
    assert not output.exists()


def test_an_output_in_use_is_refused_and_left_alone(
    sample: Path, tokenizer_path: Path, output: Path
) -> None:
    output.mkdir(parents=True)
    (output / "thesis.txt").write_text("precious")
    for flags in ((), ("--replace",)):
        outcome = build([sample], tokenizer_path, output, *flags)
        assert_refused(outcome, USER_ERROR, f"--output {output}", "thesis.txt", "another folder" if flags else "Give")
    assert (output / "thesis.txt").read_text() == "precious"
    assert leftovers(output) == ["thesis.txt"]


def test_a_data_set_is_replaced_only_when_asked(
    sample: Path, tokenizer_path: Path, tmp_path: Path
) -> None:
    output = tmp_path / "out"
    assert build([sample], tokenizer_path, output, "--num-shards", "5").status == 0
    first = digests(output)
    assert_refused(build([sample], tokenizer_path, output), USER_ERROR, "--output", "--replace")
    assert digests(output) == first
    assert build([sample], tokenizer_path, output, "--replace").status == 0
    assert build([sample], tokenizer_path, tmp_path / "fresh").status == 0
    assert digests(output) == digests(tmp_path / "fresh")


def test_what_a_killed_run_left_is_named_and_can_be_replaced(
    sample: Path, tokenizer_path: Path, output: Path
) -> None:
    (output / "_temporary-0123").mkdir(parents=True)
    (output / "_temporary-0123" / "spill.arrow").write_text("half")
    (output / "train-00000-of-00009.parquet").write_text("half")
    outcome = build([sample], tokenizer_path, output)
    assert_refused(outcome, USER_ERROR, "it holds an unfinished data set", "--replace")
    assert build([sample], tokenizer_path, output, "--replace").status == 0
    assert [name for name in leftovers(output) if "temporary" in name or "00009" in name] == []


@pytest.mark.parametrize("flag", ["--output", "--temp-location"])
def test_a_folder_that_cannot_be_made_is_refused(
    flag: str, sample: Path, tokenizer_path: Path, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    folder = tmp_path / "file" / "folder"
    outcome = build([sample], tokenizer_path, tmp_path / "out", flag, folder)
    assert_refused(outcome, USER_ERROR, f"{flag} {folder}", "no folder can be made", "Give")
    assert leftovers(tmp_path) == ["file"]


def test_an_output_inside_the_input_is_refused(
    sample: Path, tokenizer_path: Path, tmp_path: Path
) -> None:
    (tmp_path / "text").write_bytes(sample.read_bytes())
    outcome = build([tmp_path], tokenizer_path, tmp_path / "out")
    assert_refused(outcome, USER_ERROR, f"--input {tmp_path}", "the output folder lies in it", "elsewhere")
    assert leftovers(tmp_path) == ["text"]


# Options


@pytest.mark.parametrize(
    ("flag", "value"),
    [
        ("--num-shards", "0"), ("--num-shards", "100000"), ("--seed", "-1"),
        ("--seed", "18446744073709551616"), ("--validation-share", "1"), ("--validation-share", "-0.1"),
        ("--max-rejects", "-1"), ("--workers", "0"), ("--range-bytes", "0"),
        ("--min-bytes-per-worker", "-1"), ("--max-seq-length", "4"), ("--duplicates", "0"),
        ("--short-seq-prob", "1.5"), ("--masked-lm-prob", "0"), ("--max-predictions-per-seq", "0"),
        ("--pool-tokens", "0"), ("--max-line-bytes", "0"), ("--max-document-bytes", "0"),
        ("--compression-level", "99"), ("--compression-level", "0"),
    ],
)  # fmt: skip
def test_a_value_that_cannot_be_is_refused(
    flag: str, value: str, sample: Path, tokenizer_path: Path, output: Path
) -> None:
    outcome = build([sample], tokenizer_path, output, f"{flag}={value}")
    assert_refused(outcome, USER_ERROR, value.rstrip("0") or value)
    name = flag.removeprefix("--")
    assert name in outcome.errors.replace("_", "-")
    assert not output.exists()


@pytest.mark.parametrize(
    ("flag", "part"),
    [("--max-seq-lenght=5", "--max-seq-lenght"), ("--duplicates=many", "many"), ("--shuffle=luck", "luck")],
)
def test_an_option_that_cannot_be_understood_is_refused(
    flag: str, part: str, sample: Path, tokenizer_path: Path, output: Path
) -> None:
    outcome = build([sample], tokenizer_path, output, flag)
    assert outcome.status == USER_ERROR
    assert part in outcome.errors + outcome.output
    assert "--help" in outcome.errors + outcome.output
    assert "Traceback" not in outcome.errors
    assert not output.exists()


def test_an_unknown_runner_is_refused(sample: Path, tokenizer_path: Path, output: Path) -> None:
    outcome = build([sample], tokenizer_path, output, "--runner", "Nonsense")
    assert_refused(outcome, USER_ERROR, "--runner Nonsense")
    assert not output.exists()


def test_a_missing_command_shows_the_commands() -> None:
    outcome = run_here()
    assert outcome.status == USER_ERROR
    assert "bert" in outcome.errors + outcome.output


# Disks and processes that fail


@pytest.fixture
def tiny_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 200 KB."""
    place = tmp_path / "disk"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=200k", "tmpfs", place], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip(f"no small file system can be mounted here: {mounted.stderr.decode().strip()}")
    yield place
    subprocess.run(["umount", place], check=True)


@pytest.mark.parametrize("workers", [(), ("--workers", "1", "--min-bytes-per-worker", "0")])
def test_a_full_disk_is_named_and_nothing_is_left(
    workers: tuple[str, ...], sample: Path, tokenizer_path: Path, tiny_disk: Path
) -> None:
    flags = ("--duplicates", "20", *workers)
    given = ("--input", sample, "--tokenizer", tokenizer_path, "--output", tiny_disk / "out")
    # A process of its own: it holds nothing open on the disk afterwards.
    process = start("bert", *given, *SMALL, *flags)
    shown, errors = process.communicate()
    outcome = Outcome(process.returncode, shown, errors)
    assert_refused(outcome, USER_ERROR, "the disk is full", "--temp-location")
    assert "while running" not in outcome.errors
    assert leftovers(tiny_disk) == []


@pytest.fixture(scope="module")
def long_text(sample: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Text that keeps two processes busy for many seconds."""
    file = tmp_path_factory.mktemp("long") / "text"
    file.write_bytes(sample.read_bytes() * 400)
    return file


class RunningJob:
    """A job with two worker processes, as a process of its own."""

    def __init__(self, text: Path, tokenizer: Path, output: Path) -> None:
        self.output = output
        flags = ("--workers", "2", "--min-bytes-per-worker", "0", "--range-bytes", "200000")
        given = ("--input", text, "--tokenizer", tokenizer, "--output", output, *SMALL, *flags)
        self.process = start("bert", *given, "--duplicates", "20")

    def wait_for(self, pattern: str) -> list[psutil.Process]:
        """The worker processes, once a file of that name was written."""
        while self.process.poll() is None and not list(self.output.rglob(pattern)):
            time.sleep(0.02)
        workers = psutil.Process(self.process.pid).children(recursive=True)
        assert len(workers) == 2
        return workers

    def end(self, within_seconds: float) -> Outcome:
        output, errors = self.process.communicate(timeout=within_seconds)
        return Outcome(self.process.returncode, output, errors)


def assert_ended(workers: list[psutil.Process]) -> None:
    _, alive = psutil.wait_procs(workers, timeout=10)
    assert not alive


# The files by which a moment of a run is known: workers starting, reading for the pool, building.
MOMENTS = ["tokenizer.json", "candidates-*", "spill-*"]


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_worker_that_is_killed_ends_the_job_at_once(
    moment: str, long_text: Path, tokenizer_path: Path, output: Path
) -> None:
    job = RunningJob(long_text, tokenizer_path, output)
    if moment == "tokenizer.json":
        while not psutil.Process(job.process.pid).children(recursive=True):
            time.sleep(0.02)
        workers = psutil.Process(job.process.pid).children(recursive=True)
    else:
        workers = job.wait_for(moment)
    workers[-1].kill()
    outcome = job.end(within_seconds=20)
    assert_refused(outcome, FAILURE, "a worker process died", "Nothing was put under a final name", "--workers")
    assert not output.exists()
    assert_ended(workers)


@pytest.mark.parametrize("moment", MOMENTS[1:])
@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_job_ends_at_once_and_leaves_nothing(
    moment: str, sent: signal.Signals, long_text: Path, tokenizer_path: Path, output: Path
) -> None:
    job = RunningJob(long_text, tokenizer_path, output)
    workers = job.wait_for(moment)
    job.process.send_signal(sent)
    outcome = job.end(within_seconds=20)
    assert outcome.status == INTERRUPTED
    assert outcome.errors.strip() == "interrupted: nothing was put under a final name"
    assert not output.exists()
    assert_ended(workers)


def test_workers_die_with_the_job(long_text: Path, tokenizer_path: Path, output: Path) -> None:
    job = RunningJob(long_text, tokenizer_path, output)
    workers = job.wait_for("candidates-*")
    job.process.kill()
    job.end(within_seconds=20)
    assert_ended(workers)
    assert not (output / "_SUCCESS").exists()
    assert not list(output.glob("*.parquet"))


def test_a_fault_of_the_program_is_one_line_and_a_trace_in_a_file(
    sample: Path, tokenizer_path: Path, output: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("an unforeseen thing")

    monkeypatch.setattr("transforms.commit.find_imbalances", fail)
    outcome = build([sample], tokenizer_path, output)
    assert_refused(outcome, FAILURE, "an unforeseen thing", "The whole trace is in ")
    found = re.search(r"The whole trace is in (\S+\.log)", outcome.errors)
    assert found
    trace = Path(found.group(1))
    assert "Traceback" in trace.read_text()
    trace.unlink()
    assert not output.exists()

"""Every end of a command is one message and a status."""

import ctypes
import errno
import os
import signal
import sys
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

import pytest
from apache_beam.io.filesystem import BeamIOError

from corpusmill import location, synced_files
from corpusmill.console.outcomes import explain
from corpusmill.console.process import FAILURE, USER_ERROR, EndingSignals
from corpusmill.errors import OutageError, UserError
from pipeline.console.run_log import LogOptions
from pipeline.outcomes import report_error, use_beam_options
from pipeline.runners.failures import explain_failure
from tests.tools.jobs import build
from tests.tools.table_rows import for_rows


def message(error: BaseException, status: int, capsys: pytest.CaptureFixture[str]) -> str:
    assert report_error(error, LogOptions()) == status
    [line] = capsys.readouterr().err.splitlines()
    return line


@for_rows(
    ("error", "part"),
    [
        (PermissionError(errno.EACCES, "Permission denied", "out/x"), "error: out/x: Permission"),
        (PermissionError(errno.EPERM, "Not permitted", b"x\xff"), r"x\xff"),
        (OSError(errno.EFBIG, "File too large"), "this process: File too large. Raise the limit"),
        (OSError(errno.EMFILE, "Too many", "f"), "f: Too many. Raise the limit (ulimit)"),
        (RuntimeError("can't start new thread"), "this process: can't start new thread. Raise"),
        (UserError("--input x[/]", "a cause", "A cure"), "--input x[/]: a cause. A cure."),
    ],
)
def test_what_the_machine_refuses_is_said_with_a_cure(
    error: BaseException, part: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert part in message(error, USER_ERROR, capsys)


def test_what_fails_in_passing_is_no_mistake_and_is_said_with_its_file_and_a_cure(
    sample: Path, tokenizer_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """In the command, and in a worker whose engine passes on a trace."""
    create, causes = synced_files.create_named, {
        errno.ENOSPC: "the disk is full (No space left on device",
        errno.EDQUOT: "the disk is full (Disk quota exceeded",
        errno.EIO: "the disk or its mount fails (Input/output error",
        errno.EROFS: "the disk or its mount fails (Read-only file system",
        errno.ESTALE: "the file server does not know it any more (Stale file handle",
        errno.EBUSY: "another program uses it (Device or resource busy",
        errno.EXDEV: "it is on another disk than the folder around it (Invalid cross-device link",
    }  # fmt: skip
    for number, cause in causes.items():
        error = OSError(number, os.strerror(number), "a\nb")
        for wrapped in (error, BeamIOError("No", {"a": error})):
            line = message(wrapped, FAILURE, capsys)
            assert rf"error: a\nb: {cause}). " in line
            assert line.endswith("; then run again.")
        assert f": {cause}). " in message(OSError(number, os.strerror(number)), FAILURE, capsys)

        def fail(path: str | Path, mode: str = "xb", number: int = number) -> BinaryIO:
            if "task" in str(path):
                raise OSError(number, os.strerror(number), str(path))
            return create(path, mode)

        monkeypatch.setattr(location, "create_named", fail)
        output = tmp_path / str(number)
        build([sample], tokenizer_path, output, refused=[cause, f": '{output}/"], status=FAILURE)


def test_an_error_of_a_call_that_knows_only_a_descriptor_names_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    for size in (1, 2**20):  # at the end, and at once
        full = synced_files.create_named("/dev/full", "wb")
        with pytest.raises(OSError, match="'/dev/full'"), full:
            full.write(bytes(size))
    monkeypatch.setattr(os, "fsync", fail)
    file = location.locate(str(tmp_path / "x"))
    for write in (lambda: file.write(b"x"), lambda: file.exchange(b"x", None)):
        with pytest.raises(OSError, match=f"'{file}'"):
            write()


class PanicException(BaseException):
    """What libraries in Rust raise."""


@pytest.mark.parametrize(
    ("error", "begin"),
    [
        (MemoryError(), "memory ran out ("),
        (OSError(errno.ENOMEM, "Cannot allocate memory"), "memory ran out ("),
        (ImportError("libx.so: failed to map segment from shared object"), "memory ran out ("),
        (PanicException("index out of bounds"), "an unforeseen fault: PanicException"),
        (KeyError(7), "an unforeseen fault: KeyError"),
    ],
)
def test_a_lack_of_memory_is_said_with_a_cure_and_what_nobody_foresaw_with_a_trace(
    error: BaseException, begin: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    line = message(error, FAILURE, capsys)
    assert line.startswith(f"error: {begin}")
    if "memory" in begin:
        assert "ulimit -v" in line
    else:
        [trace] = tmp_path.iterdir()
        assert line.endswith(f"The whole trace is in {trace}")


def test_a_full_disk_does_not_hide_the_message(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("tempfile.tempdir", "/proc/nothing")
    line = message(ValueError("a fault"), FAILURE, capsys)
    assert "ValueError: a fault. Its trace cannot be written (" in line


def test_the_second_signal_ends_the_process_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[int] = []
    monkeypatch.setattr("corpusmill.console.process.exit_now", ended.append)
    before = signal.getsignal(signal.SIGINT)
    with EndingSignals() as signals:
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGTERM)
        assert not ended
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
        assert ended == [130]
        signals.ignore()
        os.kill(os.getpid(), signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before


def end_in_finalizer() -> None:
    class Finalized:
        def __del__(self) -> None:
            os.kill(os.getpid(), signal.SIGTERM)
            sum(range(1000))  # Python looks for signals now and then

    Finalized()


def end_in_callback_of_weak_reference() -> None:
    def call(_: object) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        sum(range(1000))

    target = threading.Event()
    _kept = weakref.ref(target, call)
    del target


def end_in_callback_of_library() -> None:
    def call() -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        sum(range(1000))

    ctypes.CFUNCTYPE(None)(call)()


@pytest.mark.parametrize(
    "end", [end_in_finalizer, end_in_callback_of_weak_reference, end_in_callback_of_library]
)
def test_a_signal_whose_exception_python_drops_ends_the_command_all_the_same(
    end: Callable[[], None], capsys: pytest.CaptureFixture[str]
) -> None:
    def work() -> None:
        end()
        threading.Event().wait(60)

    hook = sys.unraisablehook
    with EndingSignals() as signals:
        with pytest.raises(KeyboardInterrupt):
            work()
        signals.ignore()
    assert capsys.readouterr().err == ""
    assert sys.unraisablehook is hook


def test_an_outage_is_no_mistake_of_the_users() -> None:
    outage = OutageError("s3://bucket", "it cannot be reached", "Check the network")
    outcome = explain(outage.about("--output s3://bucket/x"))
    assert outcome.status == FAILURE
    assert "--output s3://bucket/x: it cannot be reached. Check the network" in outcome.text


def test_an_outage_that_a_worker_meets_stays_one() -> None:
    trace = (
        "Traceback\ncorpusmill.errors.OutageError: s3://b: it is away. Wait. [while running 'X']"
    )
    explained = explain_failure(trace)
    assert isinstance(explained, OutageError)
    assert explained.args == ("s3://b", "it is away", "Wait")


def test_an_option_that_is_almost_one_of_beams_is_refused() -> None:
    with pytest.raises(UserError, match="--s3_endpoint_url"):
        use_beam_options(("--s3_endpont_url=http://x",))

"""Ranks on three simulated hosts: the same bytes, hosts that are cut off, and who is answered."""

import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from corpusmill.console.process import FAILURE
from tests.tools.jobs import command_of, digests, run_here
from tests.tools.launching import ONE_WORKER, Hosts, connect

pytestmark = pytest.mark.hosts

_RANGES = ("--range-bytes", "20000", "--num-shards", "12", "--duplicates", "10")

# Calls each service of Beam's with an id, and with many that are wrong; prints what came of each.
_CALLER = """
import sys
import grpc, msgspec
from apache_beam.portability.api import beam_fn_api_pb2 as api, beam_fn_api_pb2_grpc as stubs
from apache_beam.portability.api import beam_artifact_api_pb2 as files
from apache_beam.portability.api import beam_artifact_api_pb2_grpc as file_stubs
from apache_beam.portability.api import beam_provision_api_pb2 as provision
from apache_beam.portability.api import beam_provision_api_pb2_grpc as provision_stubs
from corpusmill.location import locate
from pipeline.runners.ranks.meeting import JOIN, open_channel, read_announcement

channel = open_channel(read_announcement(locate(sys.argv[1])))
calls = {
    "control": lambda **way: next(stubs.BeamFnControlStub(channel).Control(iter([]), **way)),
    "code": lambda **way: stubs.BeamFnControlStub(channel).GetProcessBundleDescriptor(
        api.GetProcessBundleDescriptorRequest(process_bundle_descriptor_id="bundle_1"), **way),
    "data": lambda **way: next(stubs.BeamFnDataStub(channel).Data(iter([]), **way)),
    "state": lambda **way: next(stubs.BeamFnStateStub(channel).State(iter([]), **way)),
    "logs": lambda **way: next(stubs.BeamFnLoggingStub(channel).Logging(iter([]), **way)),
    "files": lambda **way: next(file_stubs.ArtifactRetrievalServiceStub(channel).GetArtifact(
        files.GetArtifactRequest(), **way)),
    "options": lambda **way: provision_stubs.ProvisionServiceStub(channel).GetProvisionInfo(
        provision.GetProvisionInfoRequest(), **way),
    "join": lambda **way: next(channel.stream_stream(JOIN)(iter([b"{}"]), **way)),
}
answers = set()
for number in range(1000 // len(calls)):
    for name, call in calls.items():
        ids = [(), (("worker_id", f"{number:032x}"),), (("worker_id", f"worker_{number}"),)]
        try:
            call(metadata=ids[number % 3], timeout=5)
            answers.add(f"{name}: answered")
        except grpc.RpcError as error:
            answers.add(error.code().name)
print(*sorted(answers))
"""

# Prints what is said to a caller that does not encrypt.
_PLAIN = """
import socket, sys
with socket.create_connection(("10.7.0.1", int(sys.argv[1]))) as caller:
    caller.settimeout(5)
    caller.sendall(b"PRI * HTTP/2.0\\r\\n\\r\\nSM\\r\\n\\r\\n")
    print(caller.recv(999).decode("latin-1"))
"""


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosts]:
    with connect(tmp_path_factory.mktemp("hosts")) as hosts:
        yield hosts


@pytest.fixture
def hosts(network: Hosts, tmp_path: Path) -> Hosts:
    return Hosts(tmp_path, network.names)


@pytest.fixture(scope="module")
def text(sample: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("text") / "text"
    path.write_bytes(sample.read_bytes() * 40)
    return path


def job_of(text: Path, tokenizer: Path, *flags: str) -> list[str | Path]:
    return command_of([text], tokenizer, "out", *ONE_WORKER, *_RANGES, *flags)


@pytest.fixture(scope="module")
def expected(
    text: Path, tokenizer_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, str]:
    output = tmp_path_factory.mktemp("alone") / "out"
    run_here(*command_of([text], tokenizer_path, output, *_RANGES))
    return digests(output)


def find_processes(hosts: Hosts) -> list[psutil.Process]:
    """Return all processes whose working directory is that of the ranks."""
    folder = str(hosts.folder)
    return [one for one in psutil.process_iter(["cwd"]) if one.info["cwd"] == folder]


@pytest.mark.parametrize("ranks", [2, 3, 8])
def test_the_bytes_are_those_of_one_process(
    ranks: int, hosts: Hosts, text: Path, tokenizer_path: Path, expected: dict[str, str]
) -> None:
    job = hosts.run(*job_of(text, tokenizer_path), ranks=ranks)
    assert f"{ranks} ranks on {min(3, ranks)} hosts, {ranks} workers" in job.read(0)
    assert digests(hosts.folder / "out") == expected


@pytest.mark.parametrize("moment", ["done-task-*", "done-shard-*"])
def test_a_host_that_is_cut_off_is_done_without(
    moment: str, hosts: Hosts, text: Path, tokenizer_path: Path, expected: dict[str, str]
) -> None:
    job = hosts.start(*job_of(text, tokenizer_path), ranks=3)
    job.wait_for(hosts.folder, moment)
    hosts.cut_off(1)
    try:
        begin = time.monotonic()
        assert job.wait() == [0, FAILURE, 0], job.read(0)
        assert time.monotonic() - begin < 60
    finally:
        hosts.cut_off(1, False)
    assert "rank 1 on host1: it has ended, or gives no sign of life" in job.read(0)
    assert "rank 0 at 10.7.0.1:" in job.read(1)
    assert digests(hosts.folder / "out") == expected
    assert find_processes(hosts) == []


def test_any_ranks_go_on_where_rank_0_was_killed(
    hosts: Hosts, text: Path, tokenizer_path: Path, expected: dict[str, str]
) -> None:
    job = hosts.start(*job_of(text, tokenizer_path), ranks=8)
    job.wait_for(hosts.folder, "done-task-*", 5)
    job.kill(0)
    assert job.wait() == [-signal.SIGKILL, *[FAILURE] * 7]
    assert find_processes(hosts) == []
    job = hosts.run(*job_of(text, tokenizer_path, "--resume"), ranks=2)
    assert "resuming; finished so far" in job.read(0)
    assert digests(hosts.folder / "out") == expected


def test_rank_0_alone_listens_and_answers_nobody_without_an_id(
    hosts: Hosts, text: Path, tokenizer_path: Path
) -> None:
    job = hosts.start(*job_of(text, tokenizer_path, "--duplicates", "400"), ranks=3)
    job.wait_for(hosts.folder, "done-task-*")
    listening = [
        subprocess.run(
            ["ip", "netns", "exec", name, "ss", "-Hltun"],
            capture_output=True,
            text=True,
            check=True,
        ).stdout.split()
        for name in hosts.names
    ]
    assert [len(found) // 6 for found in listening] == [1, 0, 0], listening
    match = re.fullmatch(r"\[::ffff:10\.7\.0\.1\]:(\d+)", listening[0][4])
    assert match, listening
    place = hosts.folder / "out" / "_ranks.json"
    assert place.stat().st_mode & 0o077 == 0
    called = subprocess.run(
        [*hosts.within(2), sys.executable, "-c", _CALLER, place],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert called.stdout.split() == ["UNIMPLEMENTED"], called.stderr
    plain = subprocess.run(
        [*hosts.within(1), sys.executable, "-c", _PLAIN, match[1]],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert plain.stdout.strip() == "", plain
    assert job.wait() == [0, 0, 0]
    assert not place.exists()

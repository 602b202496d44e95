"""Who is answered at the gate of the local runner, and what a rank believes."""

import socket
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import grpc
import msgspec
import psutil
import pytest
from apache_beam.portability.api import beam_fn_api_pb2, beam_fn_api_pb2_grpc

from corpusmill.errors import OutageError, UserError
from corpusmill.location import LocalPath
from pipeline.console.run_log import LogOptions
from pipeline.job_options import RunOptions
from pipeline.launchers import Rank, count_own_processors, find_rank
from pipeline.runners.local.gate import ID, Gate, GatedServer, behind_gate
from pipeline.runners.ranks import meeting as meetings
from pipeline.runners.ranks.meeting import (
    Announcement,
    Hello,
    Meeting,
    find_address,
    read_announcement,
)
from pipeline.runners.ranks.member import Connection, take_part
from tests.tools.jobs import TWO_WORKERS, build, digests
from tests.tools.knobs import knobs
from tests.tools.table_rows import for_rows

SLURM = {"SLURM_PROCID": "3", "SLURM_STEP_NUM_TASKS": "8"}
SLURM_BY_PMI2 = {"PMI_RANK": "3", "PMI_SIZE": "8", "SLURM_STEP_TASKS_PER_NODE": "8", **SLURM}


@for_rows(
    ("environment", "rank"),
    [
        ({}, None),
        ({**SLURM, "SLURM_STEP_TASKS_PER_NODE": "4(x2)"}, Rank(3, 8)),
        ({**SLURM, "SLURM_STEP_NUM_NODES": "1"}, Rank(3, 8, is_on_one_host=True)),
        # A batch script, of which there is one whatever the number of tasks of its allocation.
        ({"SLURM_PROCID": "0", "SLURM_NTASKS": "8"}, None),
        ({"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2"}, Rank(1, 2)),
        ({"PMI_RANK": "1", "PMI_SIZE": "2"}, Rank(1, 2)),
        (SLURM_BY_PMI2, Rank(3, 8, is_on_one_host=True)),
        # torchrun on each node, by srun
        ({**SLURM, "RANK": "17", "WORLD_SIZE": "64", "LOCAL_WORLD_SIZE": "8"}, Rank(17, 64)),
        ({"RANK": "1", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}, Rank(1, 2, True)),
        ({"RANK": "0", "WORLD_SIZE": "1"}, None),
        # An indexed Job does not say how many pods it has.
        ({"JOB_COMPLETION_INDEX": "2"}, None),
        ({"RANK": "two", "WORLD_SIZE": ""}, None),
    ],
)
def test_launchers_say_the_rank(environment: dict[str, str], rank: Rank | None) -> None:
    assert find_rank(None, None, environment) == rank


@for_rows(
    ("number", "size", "rank"),
    [
        (None, 5, Rank(2, 5)),
        (4, 5, Rank(4, 5)),
        (None, 1, None),
    ],
)
def test_what_a_user_says_counts(number: int | None, size: int, rank: Rank | None) -> None:
    assert find_rank(number, size, {"JOB_COMPLETION_INDEX": "2"}) == rank


def test_processors_are_those_of_this_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit = tmp_path / "cpu.max"
    monkeypatch.setattr("corpusmill.processors._LIMIT", limit)
    monkeypatch.setattr("os.cpu_count", lambda: 16)
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(16)))
    torchrun = {"RANK": "1", "WORLD_SIZE": "8", "LOCAL_WORLD_SIZE": "4"}
    assert [count_own_processors({}), count_own_processors(torchrun)] == [16, 4]
    limit.write_text("250000 100000\n")
    assert [count_own_processors({}), count_own_processors(torchrun)] == [2, 1]
    limit.write_text("max 100000\n")
    assert count_own_processors(SLURM_BY_PMI2) == 2
    # Open MPI binds each to a socket that others have, too.
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(8)))
    open_mpi = {"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "4"}
    assert count_own_processors({**open_mpi, "OMPI_COMM_WORLD_LOCAL_SIZE": "4"}) == 4
    # Those of Slurm and of Open MPI are dealt out already.
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {4, 5, 6})
    assert count_own_processors({**SLURM, "SLURM_STEP_TASKS_PER_NODE": "4"}) == 3


def call_services(channel: grpc.Channel, own_id: str) -> set[str]:
    """Call each of the services that a worker needs; return what came of it."""
    control = beam_fn_api_pb2_grpc.BeamFnControlStub(channel)
    data = beam_fn_api_pb2_grpc.BeamFnDataStub(channel)
    state = beam_fn_api_pb2_grpc.BeamFnStateStub(channel)
    request = beam_fn_api_pb2.GetProcessBundleDescriptorRequest()
    way: dict[str, Any] = {"metadata": ((ID, own_id),), "timeout": 1}
    answers, calls = set(), list[Callable[[], object]]()
    calls += (
        lambda: control.GetProcessBundleDescriptor(request, **way),
        lambda: next(control.Control(iter([]), **way)),
        lambda: next(data.Data(iter([]), **way)),
        lambda: next(state.State(iter([]), **way)),
    )
    for call in calls:
        try:
            call()
        except StopIteration:
            answers.add("END")
        except grpc.RpcError as error:
            answers.add(error.code().name)
    return answers


def test_workers_are_answered_until_their_job_ends() -> None:
    with closing(Gate()) as gate, behind_gate(gate), grpc.insecure_channel(gate.address) as channel:
        server = GatedServer(None, None, None)
        own_id = server.make_id()
        assert call_services(channel, "worker_1") == {"UNIMPLEMENTED"}
        assert call_services(channel, own_id).isdisjoint({"UNIMPLEMENTED"})
        server.close()
        assert call_services(channel, own_id) == {"UNIMPLEMENTED"}


def test_workers_of_this_machine_are_reached_on_it_alone_whatever_proxy_is_set(
    built: Path,
    sample: Path,
    tokenizer_path: Path,
    output: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A proxy for the web made all workers wait a minute, and fail."""
    listening = set()
    begin = Gate.make_id

    def look(gate: Gate) -> str:
        for one in psutil.Process().net_connections("tcp"):
            if one.status == psutil.CONN_LISTEN:
                listening.add(one.laddr.ip.removeprefix("::ffff:"))
        return begin(gate)

    monkeypatch.setattr(Gate, "make_id", look)
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    build([sample], tokenizer_path, output, *TWO_WORKERS)
    assert listening == {"127.0.0.1"}
    assert digests(output) == digests(built)


@pytest.fixture
def meeting() -> Iterator[Meeting]:
    with knobs(seconds_to_start=0, silent_seconds=4), opened(3) as made:
        yield made


@contextmanager
def opened(size: int) -> Iterator[Meeting]:
    made = Meeting(size, "127.0.0.1")
    try:
        yield made
    finally:
        made.close(0)


def announced_by(meeting: Meeting, folder: Path) -> Announcement:
    meeting.announce(LocalPath(str(folder / "ranks.json")))
    announced = read_announcement(LocalPath(str(folder / "ranks.json")))
    assert announced is not None
    return announced


def test_a_rank_comes_by_the_file(meeting: Meeting, tmp_path: Path) -> None:
    announced = announced_by(meeting, tmp_path)
    assert (tmp_path / "ranks.json").stat().st_mode & 0o777 == 0o600
    with Connection(announced, announced.ids[2], Hello.own(4, "job.rank2.log")):
        assert meeting.wait(0) == [1]
        [member] = meeting.members
        assert len(meeting.workers()) == 4
        assert str(member) == f"rank 2 on {socket.gethostname()} (log: job.rank2.log)"
        with Connection(announced, announced.ids[2], Hello.own(1, None)):
            assert member.is_lost  # it has been started once more
            assert len(meeting.workers()) == 1


def test_what_no_rank_0_stands_behind_is_not_believed(meeting: Meeting, tmp_path: Path) -> None:
    """A file of an earlier run, at whose address somebody else listens; and an unknown id."""
    announced = announced_by(meeting, tmp_path)
    _, certificate = meetings.make_certificate()
    impostor = msgspec.structs.replace(announced, certificate=certificate.decode())
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        silent = msgspec.structs.replace(announced, address=f"127.0.0.1:{nobody.getsockname()[1]}")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(meetings, "_SECONDS_TO_ANSWER", 0.5)
            for stale in (impostor, silent):
                with pytest.raises(ConnectionRefusedError, match="gives no answer"):
                    Connection(stale, announced.ids[1], Hello.own(1, None))
    with (
        pytest.raises(ConnectionRefusedError, match="does not know this rank"),
        Connection(announced, "0" * 32, Hello.own(1, None)),
    ):
        pass
    assert meeting.members == []


def test_a_file_that_others_can_read_is_not_believed(meeting: Meeting, tmp_path: Path) -> None:
    announced_by(meeting, tmp_path)
    place = LocalPath(str(tmp_path / "ranks.json"))
    (tmp_path / "ranks.json").chmod(0o640)
    assert read_announcement(place) is None
    with (
        knobs(seconds_to_meet=1),
        pytest.raises(OutageError, match=r"^rank 1: rank 0 was not met within 1 second by way of "),
    ):
        take_part(Rank(1, 3), place, RunOptions(workers=1), LogOptions())


def test_a_file_system_that_keeps_no_secret_is_refused(
    meeting: Meeting, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.umask", lambda _: 0)
    with pytest.raises(UserError, match="does not keep files from others"):
        announced_by(meeting, tmp_path)


def test_two_jobs_do_not_meet_in_one_place(meeting: Meeting, tmp_path: Path) -> None:
    announced_by(meeting, tmp_path)
    with (
        opened(2) as other,
        pytest.raises(UserError, match="the ranks of another job meet there, at 127"),
    ):
        announced_by(other, tmp_path)


def test_ranks_of_another_version_are_refused(meeting: Meeting, tmp_path: Path) -> None:
    announced = announced_by(meeting, tmp_path)
    hello = msgspec.structs.replace(Hello.own(1, None), versions="corpusmill 0, Python 2.7")
    with (
        pytest.raises(UserError, match=r"it has corpusmill 0, Python 2.7, and rank 0 on "),
        Connection(announced, announced.ids[1], hello),
    ):
        pass


def test_the_address_is_one_that_others_reach(monkeypatch: pytest.MonkeyPatch) -> None:
    assert find_address(None, is_on_one_host=True) == "127.0.0.1"
    assert find_address("localhost", is_on_one_host=True) == "127.0.0.1"
    monkeypatch.setattr("socket.gethostbyname", lambda _: "127.0.1.1")  # as Debian has it
    assert find_address("host", is_on_one_host=False) == "127.0.1.1"
    own = [one.address for listed in psutil.net_if_addrs().values() for one in listed]
    assert find_address(None, is_on_one_host=False) in own
    monkeypatch.undo()
    with pytest.raises(UserError, match=r"^--rank-address no.such.host: no address is known"):
        find_address("no.such.host", is_on_one_host=False)
    with pytest.raises(UserError, match=r"^--rank-address 192.0.2.7: it is no address of this"):
        Gate("192.0.2.7")

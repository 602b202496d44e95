"""Workers on machines that have nothing of the project but what Beam's own staging brings them."""

import shutil
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from pipeline.command_line import USER_ERROR
from tests.deploy.hosts import DRIVER_ADDRESS, Host, Network, connect_hosts
from tests.tools.jobs import Outcome, assert_refused, digests, run_here

pytestmark = pytest.mark.hosts

# Ernie's labels need a rule of words, its pairs the pool of random documents.
JOB = ("--max-seq-length", "64", "--duplicates", "2", "--validation-share", "0.2", "--seed", "1")
SHARDS = ("--num-shards", "4", "--output-format", "avro")


@pytest.fixture(scope="module")
def shared(sample: Path, tokenizer_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that all machines mount: a corpus with a reject, and a tokenizer."""
    folder = tmp_path_factory.mktemp("shared")
    (folder / "text").write_bytes(sample.read_bytes() + b"Not \xff text .\n")
    shutil.copy(tokenizer_path, folder)
    return folder


def given(shared: Path, output: str) -> tuple[str | Path, ...]:
    tokenizer = shared / "tokenizer.json"
    return ("--input", shared / "text", "--tokenizer", tokenizer, "--output", shared / output)


@pytest.fixture(scope="module")
def reference(shared: Path) -> dict[str, str]:
    """The digests of a data set built in this process, which compiles the kernels as well."""
    outcome = run_here("ernie", *given(shared, "local"), *JOB, *SHARDS)
    assert outcome.status == 0, outcome.errors
    return digests(shared / "local")


@dataclass(frozen=True)
class Cluster:
    """Two hosts, and Beam's job service on the driver.

    Attributes:
        network: driver and hosts.
        service: where the driver gives jobs to.
        folder: for logs.
    """

    network: Network
    service: str
    folder: Path

    def run(self, *arguments: str | Path, wheels: Sequence[Path] = ()) -> tuple[int, str]:
        """Run a command of the job there; gives its exit status and what it says.

        Args:
            arguments: the command.
            wheels: which the workers are to install.
        """
        log = self.folder / "job.log"
        beam = (
            f"--job_endpoint={self.service}",
            "--environment_type=EXTERNAL",
            "--environment_config=the-service-knows-where",
            *(f"--extra_package={wheel}" for wheel in wheels),
        )
        runner = ("--runner", "PortableRunner", "--", *beam)
        job = self.network.start("-m", "pipeline", *arguments, *runner, log=log)
        try:
            return job.wait(), log.read_text()
        finally:
            job.kill()

    def logs(self) -> str:
        """What hosts and service say."""
        return "\n".join(path.read_text() for path in sorted(self.folder.glob("*.log")))


@pytest.fixture(scope="module")
def cluster(
    shared: Path, reference: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster]:
    assert reference  # hosts are given what it has compiled
    folder = tmp_path_factory.mktemp("cluster")
    port = folder / "port"
    with connect_hosts(folder, shared, ("north", "south")) as network:
        service = network.start(
            "-m", "tests.deploy.job_service", port, DRIVER_ADDRESS, *network.pools,
            log=folder / "service.log",
        )  # fmt: skip
        try:
            while not (port.exists() and port.read_text()):
                assert service.poll() is None, (folder / "service.log").read_text()
                time.sleep(0.05)
            yield Cluster(network, f"localhost:{port.read_text()}", folder)
        finally:
            service.kill()
            service.wait()


def test_workers_that_lack_the_code_are_told_of_with_the_cure(
    cluster: Cluster, shared: Path
) -> None:
    status, said = cluster.run("ernie", *given(shared, "nothing"), *JOB, *SHARDS)
    announced, _, errors = said.partition("\n")
    assert announced.startswith("PortableRunner: job ")
    assert_refused(Outcome(status, "", errors), USER_ERROR, "No module named", "build_wheels.py")


def test_the_bytes_of_workers_that_have_what_staging_brought(
    cluster: Cluster, shared: Path, reference: dict[str, str], wheels: tuple[Path, Path]
) -> None:
    hosts, ours = cluster.network.hosts, {"corpusmill", "transforms", "pipeline"}
    assert not any(ours & packages_of(host) for host in hosts)
    small_ranges = ("--range-bytes", "3000")
    job = ("ernie", *given(shared, "out"), *JOB, *SHARDS, *small_ranges)
    status, said = cluster.run(*job, wheels=wheels)
    assert status == 0, said + cluster.logs()
    assert digests(shared / "out") == reference
    assert all(ours <= packages_of(host) for host in hosts)


def packages_of(host: Host) -> set[str]:
    """What is installed on a host, beside the packages that it shares with this machine."""
    [folder] = host.root.glob("venv/lib/*/site-packages")
    return {path.name for path in folder.iterdir() if (path / "__init__.py").exists()}

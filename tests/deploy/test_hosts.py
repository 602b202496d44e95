"""Workers on machines that have only those parts of the project that Beam's staging brings."""

import shutil
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.deploy.hosts import DRIVER_ADDRESS, Host, Network, connect_hosts
from tests.tools.jobs import Outcome, assert_refused, digests, run_here

pytestmark = pytest.mark.hosts

# ERNIE's labels need word boundaries, and its pairs the pool of random documents.
JOB = ("--max-seq-length", "64", "--duplicates", "2", "--validation-share", "0.2", "--seed", "1")
SHARDS = ("--num-shards", "4", "--output-format", "avro")


@pytest.fixture(scope="module")
def shared(sample: Path, tokenizer_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The shared folder of all machines, with a corpus, which has a reject, and a tokenizer."""
    folder = tmp_path_factory.mktemp("shared")
    (folder / "text").write_bytes(sample.read_bytes() + b"Not \xff text .\n")
    shutil.copy(tokenizer_path, folder)
    return folder


def file_flags(shared: Path, output: str) -> tuple[str | Path, ...]:
    tokenizer = shared / "tokenizer.json"
    return ("--input", shared / "text", "--tokenizer", tokenizer, "--output", shared / output)


@pytest.fixture(scope="module")
def reference(shared: Path) -> dict[str, str]:
    """The digests of a data set built in this process, which also compiles the kernels."""
    run_here("ernie", *file_flags(shared, "local"), *JOB, *SHARDS)
    return digests(shared / "local")


@dataclass(frozen=True)
class Cluster:
    """Two hosts, and Beam's job service on the driver.

    Attributes:
        network: driver and hosts.
        service: the address of the service.
        folder: of the logs.
    """

    network: Network
    service: str
    folder: Path

    def run(self, *arguments: str | Path, wheels: Sequence[Path] = ()) -> tuple[int, str]:
        """Run a command of the job on the driver; return its exit status and its output.

        Args:
            arguments: of the command.
            wheels: for the workers to install.
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
        """Return the logs of the hosts and the service."""
        return "\n".join(path.read_text() for path in sorted(self.folder.glob("*.log")))


@pytest.fixture(scope="module")
def cluster(
    shared: Path, reference: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster]:
    assert reference  # the hosts get its compiled kernels
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


def test_missing_code_is_reported_with_the_cure(cluster: Cluster, shared: Path) -> None:
    status, output = cluster.run("ernie", *file_flags(shared, "nothing"), *JOB, *SHARDS)
    first_line, _, errors = output.partition("\n")
    assert first_line.startswith("PortableRunner: job ")
    assert_refused(Outcome(status, "", errors), "No module named", "make wheels")


def test_workers_with_staged_code_write_the_same_bytes(
    cluster: Cluster, shared: Path, reference: dict[str, str], wheels: tuple[Path, Path]
) -> None:
    hosts, packages = cluster.network.hosts, {"corpusmill", "transforms", "pipeline"}
    assert not any(packages & list_packages(host) for host in hosts)
    small_ranges = ("--range-bytes", "3000")
    job = ("ernie", *file_flags(shared, "out"), *JOB, *SHARDS, *small_ranges)
    status, output = cluster.run(*job, wheels=wheels)
    assert status == 0, output + cluster.logs()
    assert digests(shared / "out") == reference
    assert all(packages <= list_packages(host) for host in hosts)


def list_packages(host: Host) -> set[str]:
    """Return the packages of a host that it does not share with this machine."""
    [folder] = host.root.glob("venv/lib/*/site-packages")
    return {path.name for path in folder.iterdir() if (path / "__init__.py").exists()}

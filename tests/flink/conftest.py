"""What tests on Flink share: the jars, a corpus, what the local run makes of it, a cluster."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import CHECKOUT
from tests.flink.cluster import Cluster, started_cluster
from tests.flink.jars import MissingJarError, find_distribution, find_job_server
from tests.flink.jobs import Corpus, JobServer, started_job_server

_SAMPLE = CHECKOUT / "samples" / "wiki.sample.tokens"


@pytest.fixture(scope="session")
def job_server_jar() -> Path:
    """Beam's job server; without one there is nothing to test."""
    try:
        return find_job_server()
    except MissingJarError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def cluster(job_server_jar: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """One JobManager, two TaskManagers, two worker pools."""
    assert job_server_jar.is_file()
    try:
        distribution = find_distribution()
    except MissingJarError as error:
        pytest.skip(str(error))
    with started_cluster(distribution, tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def job_server(
    cluster: Cluster, job_server_jar: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[JobServer]:
    """A job server for many jobs, each of which would start one of its own."""
    with started_job_server(job_server_jar, cluster, tmp_path_factory.mktemp("server")) as server:
        yield server


@pytest.fixture(scope="session")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    """Two megabytes of text, and what the local runner makes of them."""
    folder = tmp_path_factory.mktemp("corpus")
    text = folder / "text.tokens"
    text.write_bytes(_SAMPLE.read_bytes() * 40)
    return Corpus(folder, text)

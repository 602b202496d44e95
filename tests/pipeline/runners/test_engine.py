"""What each engine refuses before anything is submitted, and how it reads Beam's own options."""

import pytest
from apache_beam.runners.runner import create_runner

from corpusmill.errors import UserError
from pipeline.job_options import RunOptions
from pipeline.runners.engine import Engine
from pipeline.runners.flink.job import FlinkRest, Overview
from pipeline.runners.launch import load_engine, resolve_name
from pipeline.runners.portable import PortableEngine
from tests.tools.table_rows import for_rows

CLUSTER = ("--flink_master=host:8081", "--parallelism=8")
PLACES = {"--input": "/in", "--output": "/out", "--temp-location": "/temp"}
STORES = {"--input": "gs://b/in", "--output": "gs://b/out", "--temp-location": "gs://b/temp"}


def engine(name: str, *arguments: str, places: dict[str, str] = PLACES) -> Engine:
    create = load_engine(name)
    return create(RunOptions(runner=name), arguments, list(places.items()))


@pytest.fixture(autouse=True)
def cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cluster that has enough slots."""
    monkeypatch.setattr(FlinkRest, "overview", lambda _: Overview("1.19.3", 2, 8, 8))


def test_names_of_beam_that_mean_the_local_engine_are_known() -> None:
    for name in ("local", "DirectRunner", "FnApiRunner"):
        assert engine(name).name == "local"
    other = engine("PortableRunner")
    assert (other.name, type(other)) == ("PortableRunner", PortableEngine)


@for_rows(
    ("given", "name"),
    [
        ("flink", "FlinkRunner"), ("FLINKRUNNER", "FlinkRunner"), ("dataflow", "DataflowRunner"),
        ("Prism", "PrismRunner"), ("directrunner", "local"), ("direct", "local"),
        ("apache_beam.runners.portability.flink_runner.FlinkRunner", "FlinkRunner"),
        ("spark", "SparkRunner"), ("my.own.FlinkRunner", "my.own.FlinkRunner"),
    ],
)  # fmt: skip
def test_an_engine_is_found_as_beam_finds_it(given: str, name: str) -> None:
    resolved = resolve_name(given)
    assert engine(resolved).name == name
    if name in {"FlinkRunner", "DataflowRunner", "PrismRunner", "SparkRunner"}:
        assert type(create_runner(given)).__name__ == name


def test_options_are_known_in_both_forms_and_the_last_counts() -> None:
    arguments = ["--parallelism=4", "--region", "us-east1", "--streaming", "--parallelism", "8"]
    flags = engine("PortableRunner", *arguments, "--not_of_beam=b=c").flags
    assert flags == {
        "parallelism": 8, "region": "us-east1", "streaming": True, "not_of_beam": "b=c"
    }  # fmt: skip
    assert engine("local").flags == {}


def test_what_the_user_sets_wins_over_what_we_set() -> None:
    ours, users = "--disk_size_gb=50", ("--machine_type", "n2-highmem-8")
    dataflow = engine("DataflowRunner", *users, places=STORES)
    assert ours in dataflow.ours
    assert not any("machine_type" in argument for argument in dataflow.ours)
    assert dataflow.arguments == (*dataflow.ours, *users)
    assert dataflow.flags["machine_type"] == "n2-highmem-8"


@for_rows("flag", PLACES)
def test_dataflow_takes_no_local_path(flag: str) -> None:
    with pytest.raises(UserError, match="the project that pays"):
        engine("DataflowRunner", places=STORES).check()
    with pytest.raises(UserError, match=r"cannot open a local path\. Give a path in an object"):
        engine("DataflowRunner", places=STORES | {flag: "/data/x"}).check()


@for_rows(
    ("name", "arguments"),
    [
        ("FlinkRunner", CLUSTER),
        ("PortableRunner", ()),
        ("SparkRunner", ("--spark_master_url=spark://a:7077",)),
    ],
)
@for_rows("flag", PLACES)
def test_workers_elsewhere_take_no_relative_path(
    name: str, arguments: tuple[str, ...], flag: str
) -> None:
    with pytest.raises(UserError, match="a relative path names another file") as caught:
        engine(name, *arguments, places=PLACES | {flag: "data/x"}).check()
    assert "data/x" in caught.value.value


@pytest.mark.parametrize("name", ["local", "DirectRunner"])
def test_workers_of_this_machine_take_every_path(name: str) -> None:
    engine(name, places={"--input": "in.txt", "--output": "out"}).check()


def test_the_name_of_a_data_set_of_the_hub_is_no_path() -> None:
    with pytest.raises(UserError, match="the project that pays"):
        engine("DataflowRunner", places=STORES | {"--input": "hf://datasets/org/name"}).check()


@pytest.mark.parametrize(
    ("path", "flags", "has_clients"),
    [("corpus", (), False), ("gs://bucket/x", (), True), ("corpus", ("--project=x",), True)],
)
def test_clients_of_stores_are_imported_only_where_they_may_be_used(
    path: str, flags: tuple[str, ...], has_clients: bool
) -> None:
    engine = load_engine("local")(RunOptions(), flags, [("--input", path)])
    assert ("google.cloud" in engine.unused_packages) != has_clients

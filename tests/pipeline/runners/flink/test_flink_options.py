"""What is set for Flink, what the user's own options change of it, and what is refused."""

from pathlib import Path

import pytest

from pipeline.job_options import RunOptions
from pipeline.runners.flink.engine import FlinkEngine, Place
from pipeline.runners.flink.job import FlinkRest, Overview, embedded_configuration
from tests.flink.jars import FLINK_VERSION, JAR_VARIABLE
from tests.tools.jobs import build, leftovers

MASTER = "--flink_master=flink:8081"


@pytest.fixture
def slots(monkeypatch: pytest.MonkeyPatch) -> list[Overview]:
    """What the cluster says of itself; a test may change it."""
    overviews = [Overview("1.19.3", 2, 8, 6)]
    monkeypatch.setattr(FlinkRest, "overview", lambda _: overviews[0])
    return overviews


@pytest.fixture(autouse=True)
def jar(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    path = tmp_path / "job-server.jar"
    path.write_bytes(b"")
    monkeypatch.setenv(JAR_VARIABLE, str(path))
    return path


def engine(*arguments: str) -> FlinkEngine:
    return FlinkEngine(RunOptions(runner="FlinkRunner"), arguments)


@pytest.mark.usefixtures("slots")
@pytest.mark.parametrize(
    ("arguments", "place"),
    [
        ((), Place.EMBEDDED),
        (("--flink_master", "[auto]"), Place.EMBEDDED),
        ((MASTER,), Place.CLUSTER),
        ((MASTER, "--job_endpoint=localhost:8099"), Place.CLUSTER),
        (("--job_endpoint=localhost:8099",), Place.ELSEWHERE),
    ],
)
def test_the_place_follows_from_the_options(arguments: tuple[str, ...], place: Place) -> None:
    assert engine(*arguments).place is place


@pytest.mark.usefixtures("slots")
def test_a_cluster_is_asked_for_what_it_has(jar: Path) -> None:
    assert engine(MASTER).defaults() == {
        "execution_mode_for_batch": "BATCH_FORCED",
        "flink_job_server_jar": str(jar),
        "flink_version": "1.19",
        "parallelism": "6",
        "environment_type": "EXTERNAL",
        "environment_config": "localhost:50000",
        "sdk_worker_parallelism": "4",
    }


def test_the_users_options_win_and_experiments_add_up() -> None:
    flink = engine(
        "--parallelism=3", "--execution_mode_for_batch", "PIPELINED", "--experiments=mine"
    )  # fmt: skip
    assert flink.parallelism == 3
    assert flink.flags["execution_mode_for_batch"] == "PIPELINED"
    assert not any(name in " ".join(flink.ours) for name in ("--parallelism", "BATCH_FORCED"))
    assert flink.flags["experiments"] == ["use_loopback_process_worker=True", "mine"]


def test_embedded_flink_has_the_tested_version_unless_the_user_gives_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert "flink_version" not in engine().defaults()  # the jar has one
    monkeypatch.delenv(JAR_VARIABLE)
    assert engine().flags["flink_version"] == FLINK_VERSION
    assert engine("--flink_version=1.20").flags["flink_version"] == "1.20"
    assert "flink_version" not in engine("--flink_job_server_jar=a.jar").flags


@pytest.mark.parametrize(
    ("overview", "flags", "parts"),
    [
        (
            Overview("1.19.3", 2, 8, 6),
            ("--parallelism=7",),
            ("--parallelism 7", "6 of the cluster's 8 slots"),
        ),
        (Overview("1.19.3", 0, 0, 0), (), (MASTER[2:].split("=", maxsplit=1)[0], "no TaskManager")),
        (Overview("1.18.1", 1, 2, 2), (), ("has Flink 1.18.1", "Beam has job servers for")),
        (Overview("2.0.1", 1, 2, 2), ("--flink_version=1.20",), ("1.20", "has Flink 2.0.1")),
    ],
)
def test_what_a_cluster_cannot_run_is_refused(
    overview: Overview, flags: tuple[str, ...], parts: tuple[str, ...], slots: list[Overview],
    sample: Path, tokenizer_path: Path, output: Path,
) -> None:  # fmt: skip
    slots[0] = overview
    arguments = ("--runner", "FlinkRunner", "--", MASTER, *flags)
    build([sample.resolve()], tokenizer_path, output, *arguments, refused=parts)
    assert leftovers(output) == []


@pytest.mark.parametrize(
    ("flag", "parts"),
    [
        ("--flink_master=127.0.0.1:1",
         ("--flink_master 127.0.0.1:1: Flink's REST interface does not answer",)),
        ("--job_server_java_launcher=no-such-java",
         ("needs Java, and no-such-java is not installed",)),
        ("--job_server_java_launcher=python3",
         ("--flink_job_server_jar ", "job-server.jar: there is no such file", JAR_VARIABLE)),
    ],
)  # fmt: skip
def test_what_is_missing_is_named(
    flag: str, parts: tuple[str, ...], jar: Path, sample: Path, tokenizer_path: Path, output: Path
) -> None:
    jar.unlink()
    flags = ("--runner", "FlinkRunner", "--", flag)
    build([sample], tokenizer_path, output, *flags, refused=parts)
    assert leftovers(output) == []


def test_embedded_flink_is_watched_at_a_port_of_this_machine_alone() -> None:
    with embedded_configuration() as (folder, address):
        content = Path(folder, "config.yaml").read_text(encoding="utf-8")
        assert '"rest.bind-address": "127.0.0.1"' in content
        assert f'"rest.bind-port": "{address.split(":")[1]}"' in content
    assert not Path(folder).exists()

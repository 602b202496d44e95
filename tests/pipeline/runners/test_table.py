"""What each engine is refused, before anything is submitted."""

from dataclasses import replace

import pytest

from corpusmill.errors import UserError
from pipeline.runners.setting import Reach, Setting, check_reach, paths_of
from pipeline.runners.table import LOCAL, PORTABLE, RUNNERS, find_runner

CLUSTER = ("--flink_master=host:8081", "--parallelism=8")


def setting(
    runner: str, *arguments: str, inputs: str = "/in", output: str = "/out", temp: str = "/temp"
) -> Setting:
    return Setting(runner, arguments, paths_of([inputs], output, temp))


def test_a_runner_is_found_by_each_of_its_names() -> None:
    for runner in RUNNERS:
        for name in (runner.name, *runner.aliases):
            assert find_runner(name) is runner
    assert find_runner("DirectRunner") is LOCAL
    other = find_runner("SparkRunner")
    assert (other.name, other.submit) == ("SparkRunner", PORTABLE.submit)


def test_what_is_said_of_runners_is_said_of_each() -> None:
    for runner in RUNNERS:
        assert runner.submission
        assert runner.environment


@pytest.mark.parametrize("flag", ["inputs", "output", "temp"])
def test_dataflow_takes_no_local_path(flag: str) -> None:
    stores = {"inputs": "gs://b/in", "output": "gs://b/out", "temp": "gs://b/temp"}
    reach = find_runner("DataflowRunner").reach(())
    check_reach(setting("DataflowRunner", **stores), reach)
    with pytest.raises(UserError, match=r"cannot open a local path\. Give a path of an object"):
        check_reach(setting("DataflowRunner", **{**stores, flag: "/data/x"}), reach)


@pytest.mark.parametrize("name", ["FlinkRunner", "PortableRunner", "SparkRunner"])
@pytest.mark.parametrize("flag", ["inputs", "output", "temp"])
def test_workers_elsewhere_take_no_relative_path(name: str, flag: str) -> None:
    runner = find_runner(name)
    arguments = CLUSTER if name == "FlinkRunner" else ()
    reach = runner.reach(arguments)
    check_reach(setting(name, *arguments), reach)
    with pytest.raises(UserError, match="a relative path names another file") as caught:
        check_reach(setting(name, *arguments, **{flag: "data/x"}), reach)
    assert "data/x" in caught.value.value


@pytest.mark.parametrize("name", ["local", "DirectRunner", "PrismRunner", "FlinkRunner"])
def test_workers_of_this_machine_take_every_path(name: str) -> None:
    check_reach(setting(name, inputs="in.txt", output="out"), find_runner(name).reach(()))


def test_the_name_of_a_data_set_of_the_hub_is_no_path() -> None:
    stores = {"output": "gs://b/out", "temp": "gs://b/temp"}
    check_reach(setting("DataflowRunner", inputs="hf://datasets/org/name", **stores), Reach.STORES)


def test_ranges_that_leave_workers_without_work_are_refused() -> None:
    runner = find_runner("local")
    chosen = replace(setting("local"), tasks=2, range_bytes_given=True)
    runner.refuse(chosen, 2)
    with pytest.raises(UserError, match="makes 2 tasks of that size, for 8 workers"):
        runner.refuse(chosen, 8)
    # What the job chose itself it may, as a small input has no more.
    runner.refuse(replace(chosen, range_bytes_given=False), 8)

"""The three files of deploy/flink have the same configuration, with the computed memory."""

import subprocess
import sys
from collections.abc import Mapping
from typing import Any

import yaml

from pipeline.runners.flink.engine import _WORKER_POOL
from pipeline.runners.flink.pool import started_pool
from tests.conftest import CHECKOUT

FOLDER = CHECKOUT / "deploy" / "flink"


def flatten(tree: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """Join nested keys as Flink does."""
    flat: dict[str, str] = {}
    for key, value in tree.items():
        if isinstance(value, Mapping):
            flat |= flatten(value, f"{prefix}{key}.")
        else:
            flat[f"{prefix}{key}"] = str(value).lower()
    return flat


def read(name: str) -> Any:
    return yaml.safe_load((FOLDER / name).read_text(encoding="utf-8"))


def configuration() -> dict[str, str]:
    return flatten(read("config.yaml"))


def test_the_three_files_agree() -> None:
    expected = configuration()
    compose = read("compose.yaml")
    for name in ("jobmanager", "taskmanager-1", "taskmanager-2"):
        properties = compose["services"][name]["environment"]["FLINK_PROPERTIES"]
        values = flatten(yaml.safe_load(properties))
        assert values.pop("jobmanager.rpc.address") == "jobmanager"
        assert values == expected
    assert flatten(read("kubernetes/cluster.yaml")["spec"]["flinkConfiguration"]) == expected


def test_a_worker_pool_is_beside_each_task_manager() -> None:
    services = read("compose.yaml")["services"]
    beside: dict[str, list[str]] = {}
    for name, service in services.items():
        if "network_mode" in service:
            beside.setdefault(service["network_mode"], []).append(name.split("-")[0])
    assert sorted(beside) == ["service:machine-1", "service:machine-2"]
    assert all(names == ["taskmanager", "workers"] for names in beside.values())
    task_manager = read("kubernetes/cluster.yaml")["spec"]["taskManager"]
    containers = task_manager["podTemplate"]["spec"]["containers"]
    assert [container["name"] for container in containers] == ["flink-main-container", "workers"]
    pools = [services["workers-1"], services["workers-2"], containers[1]]
    for pool in pools:
        assert pool["image"] == "corpusmill"
        *program, address = pool["command"]
        assert program == ["python", "-m", started_pool.__module__]
        assert address.replace("127.0.0.1", "localhost") == _WORKER_POOL


def test_restarts_outlast_the_heartbeat() -> None:
    values = configuration()
    delay = float(values["restart-strategy.fixed-delay.delay"].removesuffix(" s"))
    attempts = int(values["restart-strategy.fixed-delay.attempts"])
    assert attempts * delay * 1000 > 2 * int(values["heartbeat.timeout"])


def test_memory_is_that_of_the_program() -> None:
    values = configuration()
    slots = values["taskmanager.numberOfTaskSlots"]
    lines = (FOLDER / "memory.py").read_text(encoding="utf-8").splitlines()
    [command] = [line for line in lines if line.startswith("    python ")]
    assert f"--slots {slots} " in command
    printed = subprocess.run(
        [sys.executable, *command.split()[1:]],
        capture_output=True, text=True, check=True, cwd=CHECKOUT, env={},
    ).stdout  # fmt: skip
    sizes = {line.split()[0]: line.split()[1] for line in printed.splitlines() if "memory." in line}
    megabytes = {"1g": "1024m"}
    for key, size in sizes.items():
        assert megabytes.get(values[key], values[key]) == size

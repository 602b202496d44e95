"""What deploy/flink says in three files is one configuration, and the one that is computed."""

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from tests.conftest import CHECKOUT

FOLDER = CHECKOUT / "deploy" / "flink"


def flat(of: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """Nested keys as Flink joins them."""
    found: dict[str, str] = {}
    for key, value in of.items():
        if isinstance(value, Mapping):
            found |= flat(value, f"{prefix}{key}.")
        else:
            found[f"{prefix}{key}"] = str(value).lower()
    return found


def read(name: str) -> Any:
    return yaml.safe_load((FOLDER / name).read_text(encoding="utf-8"))


def configuration() -> dict[str, str]:
    return flat(read("config.yaml"))


def test_the_three_files_agree() -> None:
    of_file = configuration()
    compose = read("compose.yaml")
    for name in ("jobmanager", "taskmanager-1", "taskmanager-2"):
        properties = compose["services"][name]["environment"]["FLINK_PROPERTIES"]
        of_compose = flat(yaml.safe_load(properties))
        assert of_compose.pop("jobmanager.rpc.address") == "jobmanager"
        assert of_compose == of_file
    assert flat(read("kubernetes.yaml")["spec"]["flinkConfiguration"]) == of_file


def test_a_worker_pool_is_beside_each_task_manager() -> None:
    services = read("compose.yaml")["services"]
    beside: dict[str, list[str]] = {}
    for name, of in services.items():
        if "network_mode" in of:
            beside.setdefault(of["network_mode"], []).append(name.split("-")[0])
    assert sorted(beside) == ["service:machine-1", "service:machine-2"]
    assert all(of == ["taskmanager", "workers"] for of in beside.values())
    task_manager = read("kubernetes.yaml")["spec"]["taskManager"]
    containers = task_manager["podTemplate"]["spec"]["containers"]
    assert [of["name"] for of in containers] == ["flink-main-container", "workers"]


def test_restarts_outlast_the_heartbeat() -> None:
    of = configuration()
    delay = float(of["restart-strategy.fixed-delay.delay"].removesuffix(" s"))
    attempts = int(of["restart-strategy.fixed-delay.attempts"])
    assert attempts * delay * 1000 > 2 * int(of["heartbeat.timeout"])


def test_memory_is_what_the_program_computes() -> None:
    of = configuration()
    said = subprocess.run(
        [sys.executable, str(FOLDER / "memory.py"), "--slots", of["taskmanager.numberOfTaskSlots"]],
        capture_output=True, text=True, check=True, cwd=CHECKOUT, env={"PYTHONPATH": str(CHECKOUT)},
    ).stdout  # fmt: skip
    sizes = {line.split()[0]: line.split()[1] for line in said.splitlines() if "memory." in line}
    megabytes = {"1g": "1024m"}
    for key, size in sizes.items():
        assert megabytes.get(of[key], of[key]) == size


def test_the_image_holds_what_its_recipe_copies() -> None:
    lines = (FOLDER / "Dockerfile").read_text(encoding="utf-8").splitlines()
    copied = [part for line in lines if line.startswith("COPY ") for part in line.split()[1:-1]]
    assert copied
    for name in copied:
        assert Path(CHECKOUT, name).exists()

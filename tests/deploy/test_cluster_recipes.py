"""The files of deploy/ for Slurm, Kubernetes and Ray, with stand-ins that start processes here."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from corpusmill.commands.command_line import parse
from corpusmill.console.process import INTERRUPTED, USER_ERROR
from pipeline.command_line import JOB
from pipeline.job_options import Build
from tests.conftest import CHECKOUT
from tests.tools.jobs import SMALL, SMALL_RANGES, command_of, digests, run_here
from tests.tools.launching import ONE_WORKER, PATIENCE, Hosts, Launcher

SLURM, RAY = CHECKOUT / "deploy" / "slurm" / "build.sh", CHECKOUT / "deploy" / "ray" / "build.py"
JOB_FILE = CHECKOUT / "deploy" / "kubernetes" / "job.yaml"
# By which little text is worth all ranks.
_FLAGS = (*SMALL, *ONE_WORKER, *SMALL_RANGES)
# A pod is told its number, and nothing else.
_POD = Launcher("JOB_COMPLETION_INDEX", "", "")

_PROGRAMS = {
    "corpusmill": f'exec "{sys.executable}" -P -m corpusmill "$@"',
    "srun": """
while [[ $1 == --* ]]; do shift; done
export SLURM_STEP_NUM_TASKS=$SLURM_NTASKS SLURM_STEP_TASKS_PER_NODE=1 SLURM_STEP_NUM_NODES=1
for ((rank = 0; rank < SLURM_NTASKS; rank++)); do
    SLURM_PROCID=$rank "$@" &
    tasks+=($!)
done
echo "${tasks[@]}" > tasks.txt
status=0
for task in "${tasks[@]}"; do
    wait "$task"
    ended=$?
    ((ended > status)) && status=$ended
done
exit "$status"
""",
    "scontrol": 'echo "$@" >> scontrol.txt',
}

# What of Ray the program uses: nodes are this machine, tasks are threads.
_RAY = """
import sys
from concurrent.futures import Future, ThreadPoolExecutor
from types import SimpleNamespace

threads = ThreadPoolExecutor(9)
modules = "util", "util.placement_group", "util.scheduling_strategies"
sys.modules |= {f"ray.{name}": sys.modules["ray"] for name in modules}
init, get, get_node_ip_address = lambda: None, Future.result, lambda: "127.0.0.1"

def placement_group(bundles, strategy):
    assert strategy == "STRICT_SPREAD"
    return SimpleNamespace(bundles=bundles, ready=lambda: threads.submit(int))

def PlacementGroupSchedulingStrategy(group, placement_group_bundle_index):
    return group.bundles[placement_group_bundle_index]

def remote(num_cpus, max_retries):
    def options(function, scheduling_strategy):
        assert scheduling_strategy == {"CPU": num_cpus}
        return SimpleNamespace(remote=lambda rank: threads.submit(function, rank))
    return lambda function: SimpleNamespace(options=lambda **kind: options(function, **kind))
"""


@pytest.fixture
def environment(tmp_path: Path) -> Mapping[str, str]:
    """An environment with the command, and stand-ins for what launchers install."""
    (tmp_path / "programs").mkdir()
    for name, script in _PROGRAMS.items():
        program = tmp_path / "programs" / name
        program.write_text(f"#!/bin/bash\n{script}\n")
        program.chmod(0o755)
    (tmp_path / "programs" / "ray.py").write_text(_RAY)
    path = os.pathsep.join((str(tmp_path / "programs"), os.environ["PATH"]))
    python = os.pathsep.join((str(CHECKOUT), str(tmp_path / "programs")))
    return {**os.environ, "PATH": path, "PYTHONPATH": python, "CORPUSMILL_THRESHOLDS": PATIENCE}


@pytest.fixture(scope="module")
def data(
    sample: Path, tokenizer_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, Mapping[str, str]]:
    """A folder with `corpus` and `tokenizer.json`, and what one process makes of them."""
    folder = tmp_path_factory.mktemp("shared")
    (folder / "corpus").write_bytes(sample.read_bytes() * 20)
    (folder / "tokenizer.json").write_bytes(tokenizer_path.read_bytes())
    run_here(*command_of([folder / "corpus"], folder / "tokenizer.json", folder / "alone"))
    return folder, digests(folder / "alone")


def with_data(text: str, folder: Path, data: Path, root: str) -> str:
    """Put the folders of a test in the place of those that a file names."""
    for name in ("corpus", "tokenizer.json"):
        text = text.replace(f"{root}/{name}", str(data / name))
    return text.replace(f"{root}/out", str(folder / "out"))


def start_slurm_job(
    folder: Path, data: Path, environment: Mapping[str, str], attempt: int = 0
) -> "subprocess.Popen[bytes]":
    """Start the script as Slurm does."""
    script = with_data(SLURM.read_text(), folder, data, "/shared")
    options = dict(re.findall(r"(?m)^#SBATCH --([\w-]+)(?:=(.*))?$", script))
    assert options["ntasks-per-node"] == "1"
    assert {"requeue", "open-mode", "signal"} <= options.keys()
    assert options["signal"].startswith("USR1@")
    script = script.replace(" --resume", f" --resume {' '.join(_FLAGS)}")
    variables = {
        "SLURM_JOB_ID": "7",
        "SLURM_NTASKS": options["nodes"],
        "SLURM_CPUS_PER_TASK": options["cpus-per-task"],
        # A batch script is told a number, too.
        "SLURM_PROCID": "0",
        **({"SLURM_RESTART_COUNT": str(attempt)} if attempt else {}),
    }
    (folder / "build.sh").write_text(script)
    return subprocess.Popen(["bash", "build.sh"], cwd=folder, env={**environment, **variables})


def start_until_it_reads(
    folder: Path, data: Path, environment: Mapping[str, str]
) -> "subprocess.Popen[bytes]":
    """Start the job, and wait until a task has been read."""
    job = start_slurm_job(folder, data, environment)
    while job.poll() is None and not [*folder.rglob("done-task-*")]:
        time.sleep(0.02)
    return job


def test_slurm_queues_a_job_again_before_its_limit(
    tmp_path: Path, data: tuple[Path, Mapping[str, str]], environment: Mapping[str, str]
) -> None:
    folder, expected = data
    job = start_until_it_reads(tmp_path, folder, environment)
    for task in (tmp_path / "tasks.txt").read_text().split():
        os.kill(int(task), signal.SIGUSR1)
    assert job.wait() == INTERRUPTED
    assert (tmp_path / "scontrol.txt").read_text() == "requeue 7\n"
    (tmp_path / "scontrol.txt").unlink()
    assert start_slurm_job(tmp_path, folder, environment, attempt=1).wait() == 0
    assert not (tmp_path / "scontrol.txt").exists()
    assert digests(tmp_path / "out") == expected


def test_a_task_that_slurm_has_lost_does_not_fail_the_job(
    tmp_path: Path, data: tuple[Path, Mapping[str, str]], environment: Mapping[str, str]
) -> None:
    folder, expected = data
    job = start_until_it_reads(tmp_path, folder, environment)
    os.kill(int((tmp_path / "tasks.txt").read_text().split()[1]), signal.SIGKILL)
    assert job.wait() == 0
    assert digests(tmp_path / "out") == expected


def test_a_mistake_is_not_queued_again(tmp_path: Path, environment: Mapping[str, str]) -> None:
    assert start_slurm_job(tmp_path, tmp_path, environment).wait() == USER_ERROR
    assert not (tmp_path / "scontrol.txt").exists()


def read_job() -> dict[str, Any]:
    job: dict[str, Any] = yaml.safe_load(JOB_FILE.read_text())
    return job


def start_pods(hosts: Hosts, data: Path, expected: Mapping[str, str]) -> None:
    """Run the command of the pods, and compare what they leave."""
    [container] = read_job()["spec"]["template"]["spec"]["containers"]
    arguments = [with_data(word, hosts.folder, data, "/data") for word in container["args"]]
    pods = hosts.run(*arguments, *_FLAGS, ranks=read_job()["spec"]["completions"], launcher=_POD)
    assert "4 ranks on " in pods.read(0)
    assert digests(hosts.folder / "out") == expected


def test_pods_of_an_indexed_job_are_ranks(
    tmp_path: Path, data: tuple[Path, Mapping[str, str]]
) -> None:
    start_pods(Hosts(tmp_path), *data)


def test_the_job_of_kubernetes_is_valid() -> None:
    kubernetes_validate.validate(read_job(), kubernetes_validate.latest_version(), strict=True)
    spec = read_job()["spec"]
    [container] = spec["template"]["spec"]["containers"]
    _, command, _ = parse(container["args"], JOB)
    assert isinstance(command, Build)
    assert {spec["completions"], spec["parallelism"], command.run.ranks} == {4}
    assert command.dataset.resume
    # A volume that is mounted, and a mistake that is not repeated.
    names = [volume["name"] for volume in spec["template"]["spec"]["volumes"]]
    assert names == [mount["name"] for mount in container["volumeMounts"]]
    [mistakes, _] = spec["podFailurePolicy"]["rules"]
    assert mistakes["onExitCodes"]["containerName"] == container["name"]
    assert mistakes["onExitCodes"]["values"] == [USER_ERROR]


def test_machines_of_ray_are_ranks(
    tmp_path: Path, data: tuple[Path, Mapping[str, str]], environment: Mapping[str, str]
) -> None:
    folder, expected = data
    command = command_of([folder / "corpus"], folder / "tokenizer.json", "out", *SMALL_RANGES)
    done = subprocess.run(
        [sys.executable, RAY, "3", "1", *command, "--min-bytes-per-worker", "0", "--resume"],
        cwd=tmp_path, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "3 ranks on 1 host, 3 workers" in done.stderr + done.stdout
    assert digests(tmp_path / "out") == expected

"""The Kubernetes example of deploy/flink: its objects fit together, and its build is a command."""

import re
import shutil
import subprocess
from collections.abc import Iterator
from importlib.metadata import version
from typing import Any

import kubernetes_validate
import pytest
import yaml

from corpusmill.commands.command_line import parse
from pipeline.command_line import JOB
from pipeline.job_options import Build
from tests.conftest import CHECKOUT
from tests.deploy.test_dataflow_files import split

FLINK = CHECKOUT / "deploy" / "flink"
FOLDER = FLINK / "kubernetes"
Object = dict[str, Any]


@pytest.fixture(scope="module")
def objects() -> dict[tuple[str, str], Object]:
    """All objects that the example applies, by kind and name."""
    if not (kubectl := shutil.which("kubectl")):
        pytest.skip("kubectl is not installed")
    rendered = subprocess.run(
        [kubectl, "kustomize", FOLDER], capture_output=True, text=True, check=True
    ).stdout
    listed = list(yaml.safe_load_all(rendered))
    return {(entry["kind"], entry["metadata"]["name"]): entry for entry in listed}


def read_build() -> Object:
    build: Object = yaml.safe_load((FOLDER / "build.yaml").read_text())
    return build


def pods(objects: dict[tuple[str, str], Object]) -> Iterator[Object]:
    """The specifications of the pods that this repository describes."""
    yield read_build()["spec"]["template"]["spec"]
    yield objects["Deployment", "corpusmill-job-server"]["spec"]["template"]["spec"]
    yield objects["FlinkDeployment", "corpusmill"]["spec"]["taskManager"]["podTemplate"]["spec"]


def test_objects_of_kubernetes_are_valid(objects: dict[tuple[str, str], Object]) -> None:
    """The operator's own FlinkDeployment has no schema here."""
    for entry in (read_build(), *objects.values()):
        if entry["kind"] != "FlinkDeployment":
            kubernetes_validate.validate(entry, kubernetes_validate.latest_version(), strict=True)


def test_pods_name_only_what_is_applied(objects: dict[tuple[str, str], Object]) -> None:
    for pod in pods(objects):
        mounted = {
            mount["name"]
            for container in pod["containers"]
            for mount in container.get("volumeMounts", ())
        }
        volumes = {volume["name"]: volume for volume in pod.get("volumes", ())}
        assert mounted == volumes.keys()
        for volume in volumes.values():
            claim = volume["persistentVolumeClaim"]["claimName"]
            assert ("PersistentVolumeClaim", claim) in objects
        assert ("ServiceAccount", pod.get("serviceAccountName", "corpusmill")) in objects
    account = objects["FlinkDeployment", "corpusmill"]["spec"]["serviceAccount"]
    assert ("ServiceAccount", account) in objects


def test_builds_reach_the_job_server(objects: dict[tuple[str, str], Object]) -> None:
    deployment = objects["Deployment", "corpusmill-job-server"]["spec"]
    labels = deployment["template"]["metadata"]["labels"]
    [server] = deployment["template"]["spec"]["containers"]
    flags = dict(flag.removeprefix("--").split("=") for flag in server["args"])
    service = objects["Service", flags["job-host"]]["spec"]
    assert service["selector"].items() <= labels.items()
    ports = {str(port["port"]) for port in service["ports"]}
    assert ports == {flags["job-port"], flags["artifact-port"]}
    _, options = split(read_build()["spec"]["template"]["spec"]["containers"][0]["args"])
    assert f"--job_endpoint={flags['job-host']}:{flags['job-port']}" in options
    assert f"--flink_master={flags['flink-master']}" in options
    # And the policy lets them.
    policy = objects["NetworkPolicy", "corpusmill"]["spec"]
    allowed = policy["ingress"][0]["from"][0]["podSelector"]["matchLabels"]
    for pod in (deployment["template"], read_build()["spec"]["template"]):
        assert allowed.items() <= pod["metadata"]["labels"].items()
    assert policy["podSelector"]["matchLabels"] == allowed


def test_the_build_is_a_command() -> None:
    [container] = read_build()["spec"]["template"]["spec"]["containers"]
    arguments, _ = split(container["args"])
    _, command, _ = parse(arguments, JOB)
    assert isinstance(command, Build)
    assert command.run.runner == "FlinkRunner"
    assert command.dataset.resume


def test_all_images_have_the_tested_beam_and_one_flink(
    objects: dict[tuple[str, str], Object],
) -> None:
    beam = version("apache-beam")
    text = (CHECKOUT / "deploy" / "Dockerfile").read_text()
    assert re.findall(r"(?m)^ARG BASE=apache/beam_python[\d.]+_sdk:(.*)", text) == [beam]
    cloud = yaml.safe_load((CHECKOUT / "deploy" / "dataflow" / "cloudbuild.yaml").read_text())
    assert cloud["substitutions"]["_BEAM"] == beam
    compose = yaml.safe_load((FLINK / "compose.yaml").read_text())
    server = compose["services"]["job-server"]["image"]
    [deployed] = objects["Deployment", "corpusmill-job-server"]["spec"]["template"]["spec"][
        "containers"
    ]
    assert server == deployed["image"]
    flink = objects["FlinkDeployment", "corpusmill"]["spec"]
    assert compose["services"]["jobmanager"]["image"] == flink["image"]
    release = flink["image"].partition(":")[2].rsplit(".", 1)[0]
    assert server == f"apache/beam_flink{release}_job_server:{beam}"
    assert flink["flinkVersion"] == f"v{release.replace('.', '_')}"

"""The files of deploy/dataflow: the template's launcher and parameters, the submit script."""

import json
import os
import stat
import subprocess
from pathlib import Path

import pytest

from deploy.dataflow import launch
from pipeline.command_line import parse
from pipeline.commands.builds import BUILDS
from pipeline.preparation.recipe import Build
from tests.conftest import CHECKOUT

FOLDER = CHECKOUT / "deploy" / "dataflow"
FLAGS = (
    "--objective=bert", "--input=gs://a/*.txt 'gs://b c/*'", "--tokenizer=gs://t.json",
    "--output=gs://out", "--flags=--num-shards 3 --seed 1", "--region=us-central1",
    "--sdk_container_image=image:1",
)  # fmt: skip
PRINT_ARGUMENTS = '#!/bin/sh\nfor argument in "$@"; do printf "%s\\n" "$argument"; done\n'


def test_template_parameters_become_a_command_of_the_job() -> None:
    arguments, options = split(launch.command_line(FLAGS))
    command = parse(arguments)
    assert isinstance(command, Build)
    assert type(command) is BUILDS["bert"]
    assert command.dataset.input == ("gs://a/*.txt", "gs://b c/*")
    assert command.dataset.num_shards == 3
    assert command.run.runner == "DataflowRunner"
    assert not command.run.wait
    assert options == ["--region=us-central1", "--sdk_container_image=image:1"]


def split(arguments: list[str]) -> tuple[list[str], list[str]]:
    place = arguments.index("--")
    return arguments[:place], arguments[place + 1 :]


def test_a_missing_parameter_is_named() -> None:
    with pytest.raises(SystemExit, match="lack tokenizer, output"):
        launch.command_line(FLAGS[:2])


def test_the_template_describes_the_parameters_of_its_launcher() -> None:
    metadata = json.loads((FOLDER / "metadata.json").read_text())
    parameters = {parameter["name"]: parameter for parameter in metadata["parameters"]}
    assert set(parameters) == {*launch.PARAMETERS, "sdk_container_image"}
    optional = {name for name, entry in parameters.items() if entry.get("isOptional")}
    assert optional == {"flags"}
    objectives = parameters["objective"]["regexes"][0].strip("^()$").split("|")
    assert set(objectives) == set(BUILDS)


def test_the_submit_script_puts_the_services_options_after_the_jobs(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text(PRINT_ARGUMENTS)
    python.chmod(python.stat().st_mode | stat.S_IXUSR)
    environment = {
        "PATH": os.environ["PATH"], "PYTHON": str(python), "PROJECT": "project",
        "REGION": "us-central1", "BUCKET": "bucket", "IMAGE": "image:1",
        "SUBNETWORK": "regions/us-central1/subnetworks/inner",
    }  # fmt: skip
    arguments = ("bert", "--input", "gs://a b/*", "it's", "--", "--max_num_workers=3")
    printed = subprocess.run(
        ["sh", FOLDER / "submit.sh", *arguments], env=environment, capture_output=True, text=True,
        check=True,
    ).stdout.splitlines()  # fmt: skip
    assert printed == [
        "-m", "pipeline", "bert", "--input", "gs://a b/*", "it's", "--runner", "DataflowRunner",
        "--", "--project=project", "--region=us-central1", "--temp_location=gs://bucket/beam",
        "--sdk_container_image=image:1", "--subnetwork=regions/us-central1/subnetworks/inner",
        "--no_use_public_ips", "--max_num_workers=3",
    ]  # fmt: skip
    del environment["IMAGE"]
    refused = subprocess.run(
        ["sh", FOLDER / "submit.sh", *arguments], env=environment, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert refused.returncode
    assert "the image of deploy/dataflow" in refused.stderr

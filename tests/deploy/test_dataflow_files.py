"""The files of deploy/dataflow: the template, the scripts, and what they say of each other."""

import json
import os
import re
import runpy
import shlex
import shutil
import stat
import subprocess
from pathlib import Path
from typing import Any

import pytest

from corpusmill.commands.command_line import parse
from deploy.dataflow import launch
from pipeline.command_line import JOB
from pipeline.commands.builds import make_command, make_commands
from pipeline.job_options import Build
from tests.conftest import CHECKOUT
from tests.deploy.test_lint import copied_names
from transforms.tally import shown_here

FOLDER = CHECKOUT / "deploy" / "dataflow"
SCRIPTS = sorted((FOLDER / "scripts").glob("*.sh"))
FLAGS = (
    "--objective=bert", "--input=gs://a/*.txt 'gs://b c/*'", "--tokenizer=gs://t.json",
    "--output=gs://out", "--flags=--num-shards 3 --seed 1", "--region=us-central1",
    "--sdk_container_image=image:1",
)  # fmt: skip
# Stands in for a program: prints its arguments.
PRINT_ARGUMENTS = '#!/bin/sh\nfor argument in "$@"; do printf "%s\\n" "$argument"; done\n'


def test_template_parameters_become_a_command_of_the_job() -> None:
    arguments, options = split(launch.command_line(FLAGS))
    _, command, _ = parse(arguments, JOB)
    assert isinstance(command, Build)
    assert type(command) is make_command(Build, "bert")
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
    example = parameters["flags"]["helpText"].partition(": ")[2]
    for name in make_commands(Build):
        assert re.match(parameters["objective"]["regexes"][0], name)
        flags = (*FLAGS[1:4], f"--objective={name}", f"--flags={example}")
        assert isinstance(parse(split(launch.command_line(flags))[0], JOB)[1], Build)


def outputs() -> set[str]:
    """The settings that Terraform passes to the scripts."""
    text = (FOLDER / "terraform" / "outputs.tf").read_text()
    return set(re.findall(r"^    ([A-Z_]+) +=", text, re.MULTILINE))


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """Settings as Terraform would write them, and programs that print what they are called with."""
    settings = {name: name.lower() for name in outputs()} | {
        "NAME": "corpusmill", "TEMPLATE": "gs://data_bucket/t.json",
    }  # fmt: skip
    path = tmp_path / "settings.env"
    path.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    for name in ("gcloud", "corpusmill"):
        install(tmp_path / name, PRINT_ARGUMENTS)
    search = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    return {"PATH": search, "SETTINGS": str(path), "JOB_IMAGE": "registry/image:1"}


def install(path: Path, program: str) -> None:
    path.write_text(program)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


def run(
    script: str, *arguments: str, environment: dict[str, str], status: int = 0,
    checkout: Path = CHECKOUT,
) -> subprocess.CompletedProcess[str]:  # fmt: skip
    done = subprocess.run(
        ["bash", checkout / "deploy" / "dataflow" / "scripts" / script, *arguments],
        env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == status, done.stderr
    return done


def test_the_template_names_the_image_that_was_built(
    environment: dict[str, str], tmp_path: Path
) -> None:
    checkout = tmp_path / "checkout"
    shutil.copytree(FOLDER, checkout / "deploy" / "dataflow")
    (checkout / "deploy" / "dataflow" / "scripts" / "image.txt").unlink(missing_ok=True)
    (checkout / "dist").mkdir()
    (checkout / "dist" / "corpusmill_job-0.2.dev3+g1a2b3c4-py3-none-any.whl").touch()
    install(tmp_path / "make", "#!/bin/sh\n")
    del environment["JOB_IMAGE"]
    early = run("03_build_template.sh", environment=environment, checkout=checkout, status=2)
    assert "run 02_build_image.sh first" in early.stderr
    environment["PYTHON_VERSION"] = "3.12"
    built = run("02_build_image.sh", environment=environment, checkout=checkout).stdout
    image = "image:0.2.dev3-g1a2b3c4"  # tags have no plus sign
    assert f"--substitutions=_IMAGE={image},_PYTHON=3.12,_LAUNCHER=python312\n" in built
    template = run("03_build_template.sh", environment=environment, checkout=checkout).stdout
    assert f"--image={image}\n" in template


def test_scripts_say_what_must_run_before_them(environment: dict[str, str]) -> None:
    environment["SETTINGS"] = "/none/settings.env"
    refused = run("06_wait.sh", "job", environment=environment, status=2)
    assert "run 01_create_infrastructure.sh first" in refused.stderr


def test_a_run_from_the_template_gets_what_was_asked_for(environment: dict[str, str]) -> None:
    printed = run(
        "05_run_from_template.sh", "bert", "gs://a/*.txt 'gs://b c/*'", "gs://t, u.json", "gs://out",
        "--num-shards", "3", "--text-field", "it's, 1 text", environment=environment,
    ).stdout.splitlines()  # fmt: skip
    named = dict(line.partition("=")[::2] for line in printed)
    assert named["--service-account-email"] == "worker"
    assert "--disable-public-ips" in printed
    _, separator, joined = named["--parameters"].split("^", 2)
    # The launcher gets them as flags.
    flags = [f"--{parameter}" for parameter in joined.split(separator)]
    arguments, options = split(launch.command_line(flags))
    _, command, _ = parse(arguments, JOB)
    assert isinstance(command, Build)
    assert command.dataset.input == ("gs://a/*.txt", "gs://b c/*")
    assert command.dataset.tokenizer == "gs://t, u.json"
    assert command.documents.text_field == "it's, 1 text"
    assert command.run.temp_location == "gs://temporary_bucket/runs"
    assert options == ["--sdk_container_image=registry/image:1"]


def test_parameters_that_gcloud_would_cut_are_refused(environment: dict[str, str]) -> None:
    refused = run(
        "05_run_from_template.sh", "bert", "gs://a;;b", "gs://t", "gs://out",
        environment=environment, status=2,
    ).stderr  # fmt: skip
    assert "input=gs://a;;b" in refused


def test_a_run_from_here_puts_the_services_options_after_the_jobs(
    environment: dict[str, str],
) -> None:
    printed = run(
        "05_run_from_here.sh", "bert", "--input", "gs://a b/*", "it's", "--tokenizer", "gs://t",
        "--output", "gs://o", "--", "--max_num_workers=3", environment=environment,
    ).stdout.splitlines()  # fmt: skip
    arguments, options = split(printed)
    _, command, _ = parse(arguments, JOB)
    assert isinstance(command, Build)
    assert command.dataset.input == ("gs://a b/*", "it's")
    assert command.run.runner == "DataflowRunner"
    assert command.run.temp_location == "gs://temporary_bucket/runs"
    assert {"--subnetwork=subnetwork", "--no_use_public_ips"} < set(options)
    assert options[-1] == "--max_num_workers=3"
    assert any(option.startswith("--job_name=corpusmill-bert-") for option in options)


def test_waiting_ends_as_the_job_does(environment: dict[str, str], tmp_path: Path) -> None:
    states = tmp_path / "states"
    install(tmp_path / "gcloud", f"#!/bin/sh\nhead -1 {states}\nsed -i 1d {states}\n")
    environment["SECONDS_BETWEEN"] = "0"
    for last, status in (("DONE", 0), ("FAILED", 1), ("CANCELLED", 1)):
        names = ("PENDING", "RUNNING", "RUNNING", last)
        states.write_text("".join(f"JOB_STATE_{name}\n" for name in names))
        done = run("06_wait.sh", "job", environment=environment, status=status)
        assert re.findall("JOB_STATE_([A-Z]+)", done.stdout) == ["PENDING", "RUNNING", last]
        assert not done.stderr


def test_waiting_ends_at_its_limit(environment: dict[str, str], tmp_path: Path) -> None:
    install(tmp_path / "gcloud", "#!/bin/sh\necho JOB_STATE_RUNNING\n")
    environment |= {"SECONDS_BETWEEN": "0", "SECONDS_TO_WAIT": "0"}
    given_up = run("06_wait.sh", "job-1", environment=environment, status=124)
    assert given_up.stdout.endswith(" JOB_STATE_RUNNING\n")
    assert "job job-1 has not ended after 0 seconds (SECONDS_TO_WAIT)" in given_up.stderr
    assert "06_wait.sh job-1\n" in given_up.stderr


def test_scripts_use_only_settings_that_terraform_passes() -> None:
    optional = {"CORPUSMILL", "JOB_IMAGE", "PYTHON_VERSION", "SETTINGS"}
    optional |= {"SECONDS_BETWEEN", "SECONDS_TO_WAIT"}
    shell = {"BASH_SOURCE", "EXIT"}
    for script in SCRIPTS:
        code = re.sub(r"(?m)^ *#.*$", "", script.read_text())
        assert set(re.findall(r"\$\{?([A-Z_]+)", code)) <= outputs() | optional | shell, script


def read_gcloud_commands() -> dict[str, Any]:
    """The tree of gcloud's commands and flags, from which shells complete what a user types."""
    if not (gcloud := shutil.which("gcloud")):
        pytest.skip("gcloud is not installed")
    table = Path(gcloud).resolve().parent.parent / "data" / "cli" / "gcloud_completions.py"
    if not table.exists():
        pytest.skip("this gcloud has no table of its commands")
    tree: dict[str, Any] = runpy.run_path(str(table))["STATIC_COMPLETION_CLI_TREE"]
    return tree


def test_gcloud_has_the_commands_and_flags_of_the_scripts() -> None:
    tree = read_gcloud_commands()
    for script in SCRIPTS:
        code = script.read_text().replace("\\\n", " ")
        for line in re.findall(r"(?m)^(?:.*\$\()?gcloud (.*)", code):
            words = shlex.split(line.rstrip(")"))
            command = tree
            while words[0] in command["commands"]:
                command = command["commands"][words.pop(0)]
            assert not command["commands"], line  # not a group of commands
            flags = {word.partition("=")[0] for word in words if word.startswith("--")}
            if '"${options[@]}"' in line:
                flags |= set(re.findall(r'options\+=\("(--[a-z-]+)', code))
            assert flags <= {*command["flags"], *tree["flags"]}, line


def test_alerts_watch_counters_that_workers_report_and_are_explained() -> None:
    alerts = (FOLDER / "terraform" / "alerts.tf").read_text()
    watched = re.findall(r'metric_name=~?\\"([^"\\]+)', alerts)
    assert watched
    assert {name for names in watched for name in names.split("|")} <= {*shown_here()}
    sections = re.findall(r'format\(local.runbook, "([^"]+)"\)', alerts)
    assert len(sections) == alerts.count('resource "google_monitoring_alert_policy"')
    page = (CHECKOUT / "docs" / "how-to" / "dataflow.md").read_text()
    for section in sections:
        assert f"\n### {section}\n" in page


def test_the_build_gets_what_the_image_copies() -> None:
    rules = (FOLDER / "gcloudignore").read_text().splitlines()
    excluded = {rule.removesuffix("*").strip("/") for rule in rules if rule.startswith("/")}
    uploaded = {rule.strip("!/") for rule in rules if rule.startswith("!")} - excluded
    names = {name.removesuffix("/*.whl") for name in copied_names()}
    assert uploaded == {*names, "deploy/Dockerfile"}

"""The workflows and templates of .github, as far as they can be checked offline."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from benchmarks.__main__ import FIGURES, PAGE
from corpusmill.commands.command_line import parse
from pipeline.command_line import JOB
from tests.conftest import CHECKOUT

_FOLDER = CHECKOUT / ".github"
_WORKFLOWS = sorted((_FOLDER / "workflows").glob("*.yml"))
_PINNED = re.compile(r"uses: [\w.-]+/[\w.-]+@[0-9a-f]{40} # v\d")


@pytest.mark.parametrize("path", _WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_pins_its_actions_and_may_do_little(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert text.count("uses:") == len(_PINNED.findall(text))
    workflow = yaml.safe_load(text)
    assert workflow["permissions"] == {"contents": "read"}
    # What may prove who it is runs no code of the checkout.
    for job in workflow["jobs"].values():
        if "id-token" in job.get("permissions", {}):
            assert not [
                step for step in job["steps"] if "run" in step or "checkout" in step["uses"]
            ]


def test_workflows_have_the_form_that_github_reads() -> None:
    schema = ("--builtin-schema", "vendor.github-workflows")
    command = [sys.executable, "-m", "check_jsonschema", *schema, *map(str, _WORKFLOWS)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert not done.returncode, done.stdout


def test_figures_are_measured_each_week_and_kept_where_they_are_slower() -> None:
    workflow = yaml.safe_load((_FOLDER / "workflows" / "figures.yml").read_text(encoding="utf-8"))
    triggers = workflow[True]  # YAML's `on`
    assert [entry["cron"].split()[2:4] for entry in triggers["schedule"]] == [["*", "*"]]
    assert "workflow_dispatch" in triggers
    *_, bench, upload = workflow["jobs"]["measure"]["steps"]
    flags = re.fullmatch('make bench BENCH="(.*)"', bench["run"])
    assert flags
    assert flags[1].split() == ["--fail-if-slower", "--summary", "$GITHUB_STEP_SUMMARY"]
    assert upload["if"] == "always()"
    kept = upload["with"]["path"].split()
    assert {CHECKOUT / path for path in kept} == {PAGE, FIGURES}


def test_workflows_run_what_the_checkout_has() -> None:
    targets = re.findall(r"^([a-z-]+):", (CHECKOUT / "Makefile").read_text(), re.MULTILINE)
    commands = [
        step["run"]
        for path in _WORKFLOWS
        for job in yaml.safe_load(path.read_text(encoding="utf-8"))["jobs"].values()
        for step in job["steps"]
        if "run" in step
    ]
    assert ".ci/run" in commands
    made = [command.split()[1] for command in commands if command.startswith("make ")]
    assert made
    assert set(made) <= set(targets)


def test_what_ci_runs_in_the_image_are_commands() -> None:
    jobs = yaml.safe_load((_FOLDER / "workflows" / "ci.yml").read_text(encoding="utf-8"))["jobs"]
    *_, step = jobs["image"]["steps"]
    commands = re.findall(r"(?m)^corpusmill (.*)", step["run"])
    assert [command.split()[0] for command in commands] == ["train-tokenizer", "bert", "verify"]
    assert all(parse(command.split(), JOB)[1] for command in commands)
    assert 'docker run --rm --volume "$RUNNER_TEMP:/data" corpusmill corpusmill "$@"' in step["run"]


def test_templates_and_the_citation_are_valid_yaml() -> None:
    files = [*(_FOLDER / "ISSUE_TEMPLATE").iterdir(), CHECKOUT / "CITATION.cff"]
    assert all(yaml.safe_load(path.read_text(encoding="utf-8")) for path in files)

"""What is deployed keeps to the rules of its own language: shell, Docker, Terraform, YAML."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import CHECKOUT

DEPLOY = CHECKOUT / "deploy"
DOCKERFILE = DEPLOY / "Dockerfile"
TERRAFORM = DEPLOY / "dataflow" / "terraform"
# Names a folder that `terraform providers mirror FOLDER` has filled.
PROVIDERS = "CORPUSMILL_TERRAFORM_PROVIDERS"


def check(*command: str | Path, **environment: str) -> None:
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
        env={**os.environ, **environment},
    )  # fmt: skip
    assert not done.returncode, done.stdout


def installed(name: str) -> Path:
    """A program of the environment of the tests."""
    return Path(sys.executable).with_name(name)


def test_shell_and_images() -> None:
    scripts = (*DEPLOY.rglob("*.sh"), CHECKOUT / ".ci" / "run")
    check(installed("shellcheck"), "--external-sources", *scripts)
    check(installed("hadolint"), DOCKERFILE)


def copied_names() -> set[str]:
    """What the image copies from the checkout."""
    lines = DOCKERFILE.read_text().splitlines()
    copied = [line.split()[1:-1] for line in lines if re.match("COPY (?!--from)", line)]
    return {name for names in copied for name in names}


def test_what_images_copy_exists_and_is_not_ignored() -> None:
    names = copied_names()
    rules = (CHECKOUT / ".dockerignore").read_text().splitlines()
    assert {rule.removeprefix("!") for rule in rules if rule.startswith("!")} == names
    # `make wheels` puts the wheels there.
    assert all((CHECKOUT / name).exists() for name in names - {"dist/*.whl"})


def test_the_image_runs_commands_and_as_a_worker_beams_boot_program(tmp_path: Path) -> None:
    text = DOCKERFILE.read_text()
    [boot] = set(re.findall(r"/opt/[\w/]*/boot\b", text))
    [entry] = re.findall(r"(?m)^ENTRYPOINT (.*)", text)
    program = tmp_path / "boot"
    program.write_text('#!/bin/sh\nprintf "boot:%s\\n" "$@"\n')
    program.chmod(0o755)
    entrypoint = json.loads(entry.replace(boot, str(program)))
    for command, printed in (
        (["--id=1-1", "--logging_endpoint=a b"], "boot:--id=1-1\nboot:--logging_endpoint=a b\n"),
        (["printf", "%s|", "bert", "a b", "--seed"], "bert|a b|--seed|"),
    ):
        assert subprocess.check_output([*entrypoint, *command], text=True) == printed


def test_yaml() -> None:
    for schema, file in (
        ("cloudbuild", "dataflow/cloudbuild.yaml"), ("compose-spec", "flink/compose.yaml")
    ):  # fmt: skip
        schemas = ("--builtin-schema", f"vendor.{schema}")
        check(sys.executable, "-m", "check_jsonschema", *schemas, DEPLOY / file)


@pytest.fixture
def terraform() -> str:
    if not (path := shutil.which("terraform")):
        pytest.skip("terraform is not installed")
    return path


def test_terraform_is_formatted(terraform: str) -> None:
    check(terraform, "fmt", "-check", "-diff", "-recursive", TERRAFORM)


def test_terraform_names_only_what_is_declared() -> None:
    """Without the provider, `terraform validate` cannot tell."""
    files = "\n".join(path.read_text() for path in sorted(TERRAFORM.glob("*.tf")))
    code = re.sub(r"(?m)(^|\s)#.*$", "", files)
    variables = set(re.findall(r'(?m)^variable "(\w+)"', code))
    assert set(re.findall(r"\bvar\.(\w+)", code)) == variables
    blocks = re.findall(r"(?ms)^locals \{\n(.*?)^\}", code)
    declared = {name for block in blocks for name in re.findall(r"(?m)^  (\w+) +=", block)}
    assert set(re.findall(r"\blocal\.(\w+)", code)) == declared
    resources = {".".join(pair) for pair in re.findall(r'(?m)^resource "(\w+)" "(\w+)"', code)}
    assert set(re.findall(r"(?<![\w/.])google_\w+\.\w+(?=[.\[\]])", code)) <= resources
    example = (TERRAFORM / "terraform.tfvars.example").read_text()
    assert set(re.findall(r"(?m)^(\w+) +=", example)) <= variables


def test_terraform_is_valid(terraform: str, tmp_path: Path) -> None:
    if not (providers := os.environ.get(PROVIDERS)):
        pytest.skip(f"{PROVIDERS} names no folder of `terraform providers mirror`")
    folder = shutil.copytree(TERRAFORM, tmp_path / "terraform")
    in_folder = (terraform, f"-chdir={folder}")
    check(*in_folder, "init", "-backend=false", f"-plugin-dir={providers}")
    check(*in_folder, "validate")

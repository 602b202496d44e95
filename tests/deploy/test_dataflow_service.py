"""A job on Dataflow itself, from the template and from here; run with `pytest -m e2e tests/deploy`.

It needs gcloud with credentials, and a project in which the scripts 01 to 04 of deploy/dataflow
have run. Its data sets stay in the bucket, in a folder of their own.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from uuid import uuid4

import pytest

from tests.conftest import CHECKOUT
from tests.tools.jobs import digests, run_here, shards_of

pytestmark = pytest.mark.e2e

SCRIPTS = CHECKOUT / "deploy" / "dataflow" / "scripts"
FLAGS = ("--max-seq-length", "64", "--num-shards", "3", "--seed", "1")


@pytest.fixture(scope="module")
def settings() -> dict[str, str]:
    """The settings of the project."""
    path = Path(os.environ.get("SETTINGS", SCRIPTS / "settings.env"))
    if not path.exists():
        pytest.skip("deploy/dataflow/scripts/01_create_infrastructure.sh has not run here")
    if not (gcloud := shutil.which("gcloud")):
        pytest.skip("gcloud is not installed")
    token = subprocess.run(
        [gcloud, "auth", "print-access-token"], capture_output=True, text=True, check=False
    )
    if token.returncode:
        pytest.skip(f"gcloud has no credentials: {token.stderr.strip()}")
    lines = path.read_text().split()
    return {name: value for name, _, value in (line.partition("=") for line in lines)}


def run(script: str, *arguments: str) -> str:
    corpusmill = Path(sys.executable).with_name("corpusmill")
    done = subprocess.run(
        ["bash", SCRIPTS / script, *arguments],
        env={**os.environ, "CORPUSMILL": str(corpusmill)},
        stdout=subprocess.PIPE, text=True, check=True,
    )  # fmt: skip
    return done.stdout


def test_jobs_on_the_service_give_the_bytes_of_this_machine(
    settings: dict[str, str], tmp_path: Path
) -> None:
    data = f"gs://{settings['DATA_BUCKET']}"
    text, tokenizer = f"{data}/sample/wiki.sample.tokens", f"{data}/sample/tokenizer.json"
    folder = f"{data}/e2e-{uuid4().hex[:8]}"

    printed = run("05_run_from_template.sh", "bert", text, tokenizer, f"{folder}/template", *FLAGS)
    [job_id] = re.findall(r"^\d{4}-\d\d-\d\d\S+$", printed, re.MULTILINE)
    run("06_wait.sh", job_id)
    run(
        "05_run_from_here.sh", "bert", "--input", text, "--tokenizer", tokenizer,
        "--output", f"{folder}/here", *FLAGS,
    )  # fmt: skip

    copy("-r", folder, tmp_path)
    copy(tokenizer, tmp_path / "tokenizer.json")
    sample, local = CHECKOUT / "samples" / "wiki.sample.tokens", tmp_path / "out"
    places = ("--input", sample, "--tokenizer", tmp_path / "tokenizer.json", "--output", local)
    run_here("bert", *places, *FLAGS)
    for name in ("template", "here"):
        run("07_verify.sh", f"{folder}/{name}")
        copied = tmp_path / folder.rpartition("/")[2] / name
        assert shards_of(digests(copied)) == shards_of(digests(local))


def copy(*arguments: str | Path) -> None:
    subprocess.run(["gcloud", "storage", "cp", *arguments], check=True)

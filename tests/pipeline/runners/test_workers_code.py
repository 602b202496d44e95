"""Workers have all that a job carries: it is unpickled where nothing is but what they get."""

import json
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import CHECKOUT
from tests.tools.jobs import run_here
from tests.tools.loopback_cloud import (
    BUCKET,
    GPT_TOKENIZER,
    SERVICE,
    TOKENIZER,
    keep_translations,
    serve_storage,
)
from tests.tools.wheels import build_wheels

LOOK_INSIDE = Path(__file__).with_name("look_inside.py")
TRANSFORMS = {
    ".".join(path.relative_to(CHECKOUT).with_suffix("").parts)
    for path in (CHECKOUT / "transforms").rglob("*.py")
}
JOBS = {
    "bert-merged": ("bert", TOKENIZER, "--num-shards", "200"),
    "ernie": ("ernie", TOKENIZER, "--words", "jieba", "--output-format", "ernie-text"),
    "gpt": ("gpt", GPT_TOKENIZER, "--output-format", "megatron"),
}


@pytest.fixture(scope="module")
def pipelines(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with each job as Beam translates it for a service."""
    folder = tmp_path_factory.mktemp("pipelines")
    with serve_storage():
        for name, (objective, tokenizer, *flags) in JOBS.items():
            with keep_translations() as kept:
                run_here(
                    objective, "--input", f"{BUCKET}/in/*", "--tokenizer", tokenizer,
                    "--output", f"{BUCKET}/{name}", "--runner", "DataflowRunner",
                    *flags, "--", *SERVICE, "--dry_run=True",
                )  # fmt: skip
            (folder / f"{name}.pb").write_bytes(kept[0].SerializeToString())
    return folder


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The two wheels, unpacked as an installer does it."""
    built = build_wheels(tmp_path_factory.mktemp("wheels"))
    folders = []
    for wheel in built:
        folders.append(tmp_path_factory.mktemp(wheel.name.partition("-")[0]))
        with zipfile.ZipFile(wheel) as content:
            content.extractall(folders[-1])
    return folders[0], folders[1]


def look_inside(pipelines: Path, cwd: Path, *folders: Path) -> "subprocess.CompletedProcess[str]":
    """Unpickle in a process that sees the standard library, installed packages and the folders.

    Without `site`, what makes the checkout importable is not read.
    """
    installed = sysconfig.get_path("purelib")
    return subprocess.run(
        [sys.executable, "-I", "-S", LOOK_INSIDE, pipelines, *folders, installed],
        cwd=cwd, env={}, capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_all_that_a_job_carries_is_in_the_wheels(
    pipelines: Path, wheels: tuple[Path, Path], tmp_path: Path
) -> None:
    looked = look_inside(pipelines, tmp_path, *wheels)
    assert looked.returncode == 0, looked.stderr
    results: dict[str, Any] = json.loads(looked.stdout)
    assert set(results["jobs"]) == set(JOBS)
    for job in results["jobs"].values():
        modules = {name.rpartition(".")[0] for name in job["do_fns"].values()}
        assert {"transforms.build", "transforms.commit.commit"} <= modules
        assert len(modules & TRANSFORMS) >= 4
        assert job["coders"]
    library, of_job = map(str, wheels)
    assert "corpusmill.objectives.bert" in results["places"]
    for name, place in results["places"].items():
        assert place.startswith(library if name.startswith("corpusmill") else of_job)


def test_the_librarys_wheel_alone_is_not_enough(
    pipelines: Path, wheels: tuple[Path, Path], tmp_path: Path
) -> None:
    looked = look_inside(pipelines, tmp_path, wheels[0])
    assert looked.returncode
    assert "No module named 'transforms'" in looked.stderr

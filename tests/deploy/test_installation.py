"""The wheels in empty environments, by each installer: all build the data set of the checkout."""

import os
import platform
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import CHECKOUT
from tests.tools.jobs import digests, list_text_objectives, run_here, shards_of
from tests.tools.wheels import build_wheels

pytestmark = pytest.mark.install

CONSTRAINTS = CHECKOUT / "constraints.txt"
FLAGS = ("--max-seq-length", "64", "--num-shards", "2", "--seed", "1")
Wheels = tuple[Path, ...]


def run(*command: str | Path, **environment: str | Path) -> str:
    """Run a command outside of the checkout, and return what it prints."""
    variables = {**os.environ, **{name: str(value) for name, value in environment.items()}}
    variables.pop("PYTHONPATH", None)
    done = subprocess.run(
        command, cwd="/", env=variables, stdout=subprocess.PIPE, text=True, check=True
    )
    return done.stdout


def installed_by_pip(folder: Path, wheels: Wheels) -> Path:
    run(sys.executable, "-m", "venv", folder)
    run(folder / "bin/pip", "install", "--quiet", "--constraint", CONSTRAINTS, *wheels)
    return folder / "bin/corpusmill"


def installed_by_pipx(folder: Path, wheels: Wheels) -> Path:
    options = f"--constraint {CONSTRAINTS} --find-links {wheels[1].parent}"
    run(
        sys.executable, "-m", "pipx", "install", "--quiet", f"--pip-args={options}",
        f"corpusmill[job] @ {wheels[0].as_uri()}",
        PIPX_HOME=folder / "home", PIPX_BIN_DIR=folder / "bin",
    )  # fmt: skip
    return folder / "bin/corpusmill"


def installed_by_uv(folder: Path, wheels: Wheels) -> Path:
    run(
        sys.executable, "-m", "uv", "tool", "install", "--quiet", "--constraints", CONSTRAINTS,
        "--find-links", wheels[1].parent, "--python", sys.executable,
        f"corpusmill[job] @ {wheels[0].as_uri()}",
        UV_TOOL_DIR=folder / "tools", UV_TOOL_BIN_DIR=folder / "bin",
    )  # fmt: skip
    return folder / "bin/corpusmill"


@pytest.fixture(scope="module")
def tokenizer(sample: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tokenizer") / "tokenizer.json"
    run_here("train-tokenizer", "--input", sample, "--vocab-size", "500", "--output", path)
    return path


@pytest.fixture(scope="module")
def expected(sample: Path, tokenizer: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data set that the checkout builds."""
    output = tmp_path_factory.mktemp("expected") / "out"
    run_here("bert", "--input", sample, "--tokenizer", tokenizer, "--output", output, *FLAGS)
    return output


@pytest.mark.parametrize("install", [installed_by_pip, installed_by_pipx, installed_by_uv])
def test_an_installed_command_builds_the_same_data_set(
    install: Callable[[Path, Wheels], Path], wheels: Wheels, sample: Path, tokenizer: Path,
    expected: Path, tmp_path: Path,
) -> None:  # fmt: skip
    corpusmill = install(tmp_path / "environment", wheels)
    assert wheels[0].name.split("-")[1] in run(corpusmill, "--version")
    files = ("--input", sample, "--tokenizer", tokenizer, "--output", tmp_path / "out")
    run(corpusmill, "bert", *files, *FLAGS)
    run(corpusmill, "verify", tmp_path / "out")
    assert shards_of(digests(tmp_path / "out")) == shards_of(digests(expected))


_READ = """
import sys
from itertools import islice
from corpusmill import DataSet, Loader, TokenPacks, make_batches
for folder in sys.argv[1:]:
    if folder.endswith("gpt"):
        assert TokenPacks(DataSet(folder), 64).longest == 64
    for sizes in ({"batch_size": 4}, {"max_tokens": 4096, "by_length": True}):
        assert len(list(islice(Loader(make_batches(DataSet(folder), **sizes, seed=1)), 3))) == 3
"""


def test_a_wheel_with_kernels_needs_no_compiler_and_builds_the_same(
    sample: Path, tmp_path: Path
) -> None:
    wheels = build_wheels(tmp_path / "wheels", with_kernels=True)
    assert wheels[0].name.endswith(f"-none-manylinux_2_17_{platform.machine()}.whl")
    corpusmill = installed_by_pip(tmp_path / "environment", wheels)
    cache: dict[str, str | Path] = {"NUMBA_CACHE_DIR": tmp_path / "cache", "NUMBA_OPT": "3"}
    for name in list_text_objectives():
        tokenizer, output = tmp_path / f"{name}.json", tmp_path / name
        files = ("--input", sample, "--tokenizer", tokenizer)
        train = ("train-tokenizer", "--for", name, "--input", sample, "--vocab-size", "700")
        run(corpusmill, *train, "--output", tokenizer, **cache)
        run(corpusmill, name, *files, "--output", output, "--seed", "1", **cache)
        run_here(name, *files, "--output", tmp_path / "here" / name, "--seed", "1")
        assert shards_of(digests(output)) == shards_of(digests(tmp_path / "here" / name))
        run(corpusmill, "verify", output, **cache)
        run(corpusmill, "inspect", output, "--html", tmp_path / "page.html", **cache)
        run(corpusmill, "trace", output, "--row", "0", "--input", sample, **cache)
    for name, length in (("bert", "512"), ("gpt", "1024"), ("gpt", "200")):
        files = ("--input", sample, "--tokenizer", tmp_path / f"{name}.json")
        flags = ("--max-seq-length", length, *(("--mode", "pack") if name == "gpt" else ()))
        run(corpusmill, name, *files, "--output", tmp_path / length, *flags, **cache)
    folders = [tmp_path / name for name in (*list_text_objectives(), "512", "1024", "200")]
    run(corpusmill, "inspect-corpus", *files, "gpt", **cache)
    run(corpusmill.with_name("python"), "-c", _READ, *folders, **cache)
    assert not list((tmp_path / "cache").rglob("*.nb?"))


def test_the_library_alone_verifies_and_says_what_builds_need(
    wheels: Wheels, expected: Path, tmp_path: Path
) -> None:
    corpusmill = installed_by_pip(tmp_path / "environment", wheels[:1])
    assert "were written" in run(corpusmill, "verify", expected)
    assert "bert examples, seed 1" in run(corpusmill, "inspect", expected)
    refused = subprocess.run(
        [corpusmill, "bert"], capture_output=True, text=True, check=False, cwd="/"
    )
    assert refused.returncode == 2
    assert "pip install corpusmill-job" in refused.stderr
    assert refused.stderr.count("\n") == 1

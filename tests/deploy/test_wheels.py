"""The wheels that workers and trainers install: with their requirements alone.

A wheel is unpacked beside links to all the distributions that it requires, also indirectly. An
interpreter with only these on its path behaves as if pip had installed nothing else.
"""

import json
import subprocess
import sys
from collections.abc import Iterable
from email import message_from_bytes
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from math import ceil
from pathlib import Path
from zipfile import ZipFile

import pytest
from packaging.requirements import Requirement

from tests.conftest import CHECKOUT
from tests.tools.small_datasets import Recipe, write_dataset


def test_each_wheel_contains_its_packages_and_no_others(wheels: tuple[Path, Path]) -> None:
    for wheel, packages in zip(wheels, (["corpusmill"], ["transforms", "pipeline"]), strict=True):
        sources = {
            str(path.relative_to(CHECKOUT))
            for package in packages
            for path in (CHECKOUT / package).rglob("*")
            if path.is_file() and "__pycache__" not in path.parts
        }
        names = ZipFile(wheel).namelist()
        assert {name for name in names if ".dist-info" not in name} == sources


def read_requirements(wheel: Path) -> list[str]:
    with ZipFile(wheel) as archive:
        [name] = [name for name in archive.namelist() if name.endswith("/METADATA")]
        return message_from_bytes(archive.read(name)).get_all("Requires-Dist") or []


def test_the_job_requires_the_library_of_its_version(wheels: tuple[Path, Path]) -> None:
    library, job = wheels
    version = library.name.split("-")[1]
    [required] = [name for name in read_requirements(job) if name.startswith("corpusmill")]
    assert required == f"corpusmill[chinese,sentences,tokenizers]=={version}"
    assert job.name.split("-")[1] == version
    assert any(name.startswith("apache-beam") for name in read_requirements(job))
    unconditional = [name for name in read_requirements(library) if "extra ==" not in name]
    assert not any(name.startswith("apache-beam") for name in unconditional)


# Prints the sums of the arrays of each batch, and the imported packages.
READ = """
import sys
sys.path[:0] = sys.argv[1:3]
import json
from corpusmill.reading.load.batches import Batches
from corpusmill.reading.collate.collators import collator_for
from corpusmill.reading.data_set import DataSet
from corpusmill.reading.order.order import Order
from corpusmill.reading.order.schedule import FixedBatches, Position
data = DataSet(sys.argv[3], cache_folder=sys.argv[4])
order = Order(data.shard_sizes, shuffle=False)
batches = Batches(data, order, FixedBatches(32), collator_for(data))
read = [batch for block in batches.blocks(Position(0)) for batch, _ in batches.collate(block)]
sums = [{name: int(values.sum()) for name, values in batch.items()} for batch in read]
packages = {name.partition(".")[0] for name in sys.modules}
print(json.dumps({"sums": sums, "packages": sorted(packages)}))
"""


def find_distributions(requirements: Iterable[str], extra: str = "") -> set[str]:
    """Return the names of all distributions that are required, also indirectly."""
    names: set[str] = set()
    waiting = [(Requirement(text), extra) for text in requirements]
    while waiting:
        requirement, requested = waiting.pop()
        if requirement.marker and not requirement.marker.evaluate({"extra": requested}):
            continue
        if requirement.name in names:
            continue
        try:
            installed = distribution(requirement.name)
        except PackageNotFoundError:
            continue  # for example of an accelerator that this machine does not have
        names.add(requirement.name)
        waiting += [
            (Requirement(text), name)
            for name in ("", *requirement.extras)
            for text in installed.requires or ()
        ]
    return names


def list_entries(installed: Distribution) -> set[str]:
    """Return the entries of the folder of packages that belong to a distribution."""
    entries = {path.parts[0] for path in installed.files or ()}
    return entries - {"..", "__pycache__"}


def link(names: Iterable[str], folder: Path) -> None:
    for name in names:
        installed = distribution(name)
        for entry in list_entries(installed):
            source = Path(str(installed.locate_file(entry)))
            if source.exists() and not (folder / entry).exists():
                (folder / entry).symlink_to(source)


@pytest.fixture(scope="module")
def library(wheels: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The unpacked wheel, as after an installation."""
    folder = tmp_path_factory.mktemp("library")
    with ZipFile(wheels[0]) as content:
        content.extractall(folder)
    return folder


def run(code: str, *arguments: str | Path) -> "subprocess.CompletedProcess[str]":
    # Without `site`, the folders of packages are not on the path.
    return subprocess.run(
        [sys.executable, "-I", "-S", "-c", code, *arguments],
        env={}, capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_a_data_set_is_read_with_only_the_requirements(
    wheels: tuple[Path, Path], library: Path, tmp_path: Path
) -> None:
    packages = tmp_path / "packages"
    packages.mkdir()
    names = find_distributions(read_requirements(wheels[0]))
    assert {"numpy", "numba", "pyarrow"} <= names
    link(names, packages)
    assert not list(packages.glob("torch*"))
    assert not list(packages.glob("apache_beam*"))
    manifest = write_dataset(tmp_path / "out", Recipe(shards=2))
    outcome = run(READ, library, packages, tmp_path / "out", tmp_path / "cache")
    assert outcome.returncode == 0, outcome.stderr
    result = json.loads(outcome.stdout)
    # The checkout reads the same, in this environment.
    folders = (str(CHECKOUT), str(CHECKOUT), str(tmp_path / "out"), str(tmp_path / "own"))
    own = subprocess.check_output([sys.executable, "-c", READ, *folders])
    sums = json.loads(own)["sums"]
    assert result["sums"] == sums
    assert len(sums) == ceil(manifest.splits["train"].rows / 32) > 1
    # Workers start soon and stay small, as readers do not import packages that they do not need.
    unused = {"tokenizers", "huggingface_hub", "regex", "warcio", "orjson"}
    assert unused.isdisjoint(result["packages"])


def test_the_readers_for_torch_need_only_torch(
    wheels: tuple[Path, Path], library: Path, tmp_path: Path
) -> None:
    of_extra = [
        requirement.name
        for requirement in map(Requirement, read_requirements(wheels[0]))
        if requirement.marker
        and requirement.marker.evaluate({"extra": "torch"})
        and not requirement.marker.evaluate({"extra": ""})
    ]
    assert of_extra == ["torch"]
    packages = tmp_path / "packages"
    packages.mkdir()
    link(find_distributions(read_requirements(wheels[0]), "torch"), packages)
    folder = library / "corpusmill" / "reading" / "torch"
    modules = sorted(path.stem for path in folder.glob("[!_]*.py"))
    assert {"dataset", "streaming"} <= set(modules)
    imports = "".join(f"import corpusmill.reading.torch.{name}\n" for name in modules)
    outcome = run(f"import sys\nsys.path[:0] = sys.argv[1:3]\n{imports}", library, packages)
    assert outcome.returncode == 0, outcome.stderr

"""What a trainer installs: the library and what it asks for, without Beam, clouds or torch.

The wheel lies unpacked beside links to the distributions that it asks for, and those that they ask
for in turn; an interpreter that sees these alone is one where pip has installed nothing else.
"""

import json
import subprocess
import sys
from collections.abc import Iterable
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from zipfile import ZipFile

import numpy as np
import pytest
from packaging.requirements import Requirement

from corpusmill.reading.collate.collators import collator_for
from corpusmill.reading.data_set import DataSet
from corpusmill.reading.load.batches import Batches
from corpusmill.reading.order.order import Order
from corpusmill.reading.order.schedule import FixedBatches, Position
from tests.deploy.test_wheels import requirements_of
from tests.tools.small_datasets import OBJECTIVES, Recipe, write_small_dataset

# Sums of each array of each batch, and what was imported for them.
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
tops = {name.partition(".")[0] for name in sys.modules}
print(json.dumps({"sums": sums, "tops": sorted(tops)}))
"""


def wanted(requirements: Iterable[str], extra: str = "") -> set[str]:
    """The names of the distributions that are asked for, with all that they ask for."""
    found: set[str] = set()
    waiting = [(Requirement(of), extra) for of in requirements]
    while waiting:
        requirement, of_extra = waiting.pop()
        if requirement.marker and not requirement.marker.evaluate({"extra": of_extra}):
            continue
        if requirement.name in found:
            continue
        try:
            installed = distribution(requirement.name)
        except PackageNotFoundError:
            continue  # of an accelerator, say, which this machine does without
        found.add(requirement.name)
        waiting += [(Requirement(of), "") for of in installed.requires or ()]
        waiting += [
            (Requirement(of), name)
            for name in requirement.extras
            for of in installed.requires or ()
        ]
    return found


def tops_of(installed: Distribution) -> set[str]:
    """What a distribution puts into the folder of packages."""
    tops = {path.parts[0] for path in installed.files or ()}
    return tops - {"..", "__pycache__"}


def link(names: Iterable[str], folder: Path) -> None:
    for name in names:
        installed = distribution(name)
        for top in tops_of(installed):
            source = Path(str(installed.locate_file(top)))
            if source.exists() and not (folder / top).exists():
                (folder / top).symlink_to(source)


@pytest.fixture(scope="module")
def library(wheels: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, unpacked as an installer does it."""
    folder = tmp_path_factory.mktemp("library")
    with ZipFile(wheels[0]) as content:
        content.extractall(folder)
    return folder


def run(code: str, *arguments: str | Path) -> "subprocess.CompletedProcess[str]":
    # Without `site`, no folder of packages is looked into.
    return subprocess.run(
        [sys.executable, "-I", "-S", "-c", code, *arguments],
        env={}, capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_a_data_set_is_read_with_what_the_wheel_asks_for_alone(
    wheels: tuple[Path, Path], library: Path, tmp_path: Path
) -> None:
    packages = tmp_path / "packages"
    packages.mkdir()
    names = wanted(requirements_of(wheels[0]))
    assert {"numpy", "numba", "pyarrow"} <= names
    link(names, packages)
    assert not list(packages.glob("torch*"))
    assert not list(packages.glob("apache_beam*"))
    folder = write_small_dataset(tmp_path / "out", Recipe(OBJECTIVES["bert"], shards=2))
    outcome = run(READ, library, packages, folder, tmp_path / "cache")
    assert outcome.returncode == 0, outcome.stderr
    found = json.loads(outcome.stdout)
    data = DataSet(folder, cache_folder=tmp_path / "own")
    batches = Batches(
        data, Order(data.shard_sizes, shuffle=False), FixedBatches(32), collator_for(data)
    )
    sums = [
        {name: int(values.sum()) for name, values in batch.items()}
        for block in batches.blocks(Position(0))
        for batch, _ in batches.collate(block)
    ]
    assert found["sums"] == sums
    assert np.ceil(len(data) / 32) == len(sums)
    # What a reader does without is not imported, so that workers start soon and stay small.
    assert not {"tokenizers", "huggingface_hub", "regex", "warcio", "orjson"} & set(found["tops"])


def test_the_extra_asks_for_torch_alone(wheels: tuple[Path, Path]) -> None:
    of_extra = [
        requirement
        for of in requirements_of(wheels[0])
        if (requirement := Requirement(of)).marker
        and requirement.marker.evaluate({"extra": "torch"})
        and not requirement.marker.evaluate({"extra": ""})
    ]
    assert [requirement.name for requirement in of_extra] == ["torch"]


def test_the_readers_for_torch_want_nothing_beyond_it(
    wheels: tuple[Path, Path], library: Path, tmp_path: Path
) -> None:
    packages = tmp_path / "packages"
    packages.mkdir()
    link(wanted(requirements_of(wheels[0]), "torch"), packages)
    folder = library / "corpusmill" / "reading" / "torch"
    modules = sorted(path.stem for path in folder.glob("[!_]*.py"))
    assert {"dataset", "loader"} <= set(modules)
    imports = "".join(f"import corpusmill.reading.torch.{name}\n" for name in modules)
    outcome = run(f"import sys\nsys.path[:0] = sys.argv[1:3]\n{imports}", library, packages)
    assert outcome.returncode == 0, outcome.stderr

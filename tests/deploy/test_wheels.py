"""What workers and trainers install."""

from email import message_from_bytes
from importlib.metadata import version
from pathlib import Path
from zipfile import ZipFile

from tests.conftest import CHECKOUT


def tops(wheel: Path) -> set[str]:
    """The packages in a wheel."""
    names = {name.split("/")[0] for name in ZipFile(wheel).namelist()}
    return {name for name in names if not name.endswith(".dist-info")}


def sources(*packages: str) -> set[str]:
    return {
        str(path.relative_to(CHECKOUT))
        for package in packages
        for path in (CHECKOUT / package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


def test_the_library_holds_nothing_of_the_job(wheels: tuple[Path, Path]) -> None:
    library, _ = wheels
    assert tops(library) == {"corpusmill"}
    assert {name for name in ZipFile(library).namelist() if ".dist-info" not in name} == sources(
        "corpusmill"
    )


def test_the_job_holds_all_of_the_job_alone(wheels: tuple[Path, Path]) -> None:
    _, job = wheels
    assert tops(job) == {"transforms", "pipeline"}
    assert {name for name in ZipFile(job).namelist() if ".dist-info" not in name} == sources(
        "transforms", "pipeline"
    )


def requirements_of(wheel: Path) -> list[str]:
    with ZipFile(wheel) as archive:
        [name] = [name for name in archive.namelist() if name.endswith("/METADATA")]
        return message_from_bytes(archive.read(name)).get_all("Requires-Dist") or []


def test_the_job_wants_the_library_of_its_own_version(wheels: tuple[Path, Path]) -> None:
    library, job = wheels
    wanted = requirements_of(job)
    assert f"corpusmill=={version('corpusmill')}" in wanted
    assert any(of.startswith("apache-beam") for of in wanted)
    unconditional = [of for of in requirements_of(library) if "extra ==" not in of]
    assert not any(of.startswith("apache-beam") for of in unconditional)

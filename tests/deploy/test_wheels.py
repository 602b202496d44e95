"""The wheels that workers and trainers install."""

from email import message_from_bytes
from pathlib import Path
from zipfile import ZipFile

from tests.conftest import CHECKOUT


def list_packages(wheel: Path) -> set[str]:
    """Return the packages in a wheel."""
    names = {name.split("/")[0] for name in ZipFile(wheel).namelist()}
    return {name for name in names if not name.endswith(".dist-info")}


def sources(*packages: str) -> set[str]:
    return {
        str(path.relative_to(CHECKOUT))
        for package in packages
        for path in (CHECKOUT / package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


def test_the_library_does_not_contain_the_job(wheels: tuple[Path, Path]) -> None:
    library, _ = wheels
    assert list_packages(library) == {"corpusmill"}
    assert {name for name in ZipFile(library).namelist() if ".dist-info" not in name} == sources(
        "corpusmill"
    )


def test_the_job_contains_only_the_job(wheels: tuple[Path, Path]) -> None:
    _, job = wheels
    assert list_packages(job) == {"transforms", "pipeline"}
    assert {name for name in ZipFile(job).namelist() if ".dist-info" not in name} == sources(
        "transforms", "pipeline"
    )


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

"""The wheels that workers and trainers install."""

from email import message_from_bytes
from pathlib import Path
from zipfile import ZipFile

from tests.conftest import CHECKOUT


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

"""What `make release-check` finds, without building wheels."""

import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest

from corpusmill.commands.command_line import parse
from pipeline.command_line import JOB
from tests.tools import release_check
from tests.tools.release_check import PYTHONS, find_python, list_missing, read_commands


def test_the_commands_of_the_readme_are_five() -> None:
    commands = [line.split() for line in read_commands().splitlines()]
    assert [words[:2] for words in commands] == [
        ["corpusmill", name]
        for name in ("train-tokenizer", "inspect-corpus", "bert", "verify", "inspect")
    ]
    for words in commands:
        parse(words[1:], JOB)


def test_this_python_is_found_and_all_are_those_of_the_project() -> None:
    version = "{}.{}".format(*sys.version_info)
    assert version in PYTHONS
    assert find_python(version)
    assert not find_python("3.99")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A repository of one commit that is ready but for its tag."""
    (tmp_path / "LICENSE").touch()
    (tmp_path / "CHANGELOG.md").write_text("## Unreleased\n\n## 1.2.3 - 2026-12-01\n")
    git(tmp_path, "init", "--quiet")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "--quiet", "--message", "All")
    return tmp_path


def git(folder: Path, *arguments: str) -> None:
    author = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false")
    subprocess.run(["git", *author, *arguments], cwd=folder, check=True)


def write_wheel(folder: Path, version: str, *names: str) -> Path:
    path = folder / f"corpusmill-{version}-py3-none-any.whl"
    with ZipFile(path, "w") as archive:
        for name in names:
            archive.writestr(f"corpusmill-{version}.dist-info/{name}", "")
    return path


def test_what_a_tag_lacks_is_listed(
    checkout: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("wheels")
    licensed = write_wheel(folder, "1.2.3", "licenses/LICENSE")
    assert list_missing([licensed], checkout) == ["a tag at this commit: git tag v1.2.3"]
    git(checkout, "tag", "v1.2.3")
    assert list_missing([licensed], checkout) == []
    [license_, version] = list_missing([write_wheel(folder, "1.2.4.dev1", "METADATA")], checkout)
    assert license_.startswith("a license in corpusmill-1.2.4.dev1")
    assert version.startswith("the version 1.2.3 of corpusmill-1.2.4.dev1")
    (checkout / "CHANGELOG.md").write_text("## Unreleased\n")
    (checkout / "LICENSE").unlink()
    changes, section, no_license = list_missing([], checkout)
    assert "working tree" in changes
    assert "## 1.2.3 - YEAR" in section
    assert no_license == "LICENSE"


def test_pythons_that_were_not_tried_are_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(python: str, _: Path) -> list[Path]:
        raise subprocess.CalledProcessError(2, [python, "wheels"], "what it printed")

    monkeypatch.setattr(release_check, "find_python", {"3.12": "python3.12"}.get)
    monkeypatch.setattr(release_check, "build_wheels", fail)
    assert release_check.main(["3.12", "3.13"])
    printed = capsys.readouterr().out
    for line in (
        "what it printed\n",
        "missing: a trial with Python 3.11, which was not asked for\n",
        "missing: a trial with Python 3.12, where python3.12 failed as shown above\n",
        "missing: a trial with Python 3.13, which is not installed here\n",
    ):
        assert line in printed

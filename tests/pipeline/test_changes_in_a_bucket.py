"""Text is added and documents are removed with everything in a bucket."""

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import transforms.commit.commit
import transforms.shuffle.trees
from corpusmill.verification.check_data_set import verify
from tests.tools.jobs import command_of, run_here
from tests.tools.object_stores import Bucket
from tests.tools.origins import list_documents
from transforms.storage.files import locate, write_file

# What the manifest and the files that follow from it hold besides, the tokenizer's path.
_DESCRIBED = ("dataset.json", "README.md", "_SUCCESS")


def change(
    root: str,
    files: Sequence[str],
    documents: list[int],
    flags: Sequence[str] = (),
    beam_flags: Sequence[str] = (),
) -> None:
    """Build, append and remove below a root.

    The flags let many tasks take few files, where no other test does so in a bucket.
    """

    def run(*words: str) -> None:
        run_here(*words, *(("--", *beam_flags) if beam_flags else ()))

    def build(text: str, output: str, *options: str) -> None:
        command = command_of([text], files[2], f"{root}/{output}", *options)
        run(*map(str, command))

    build(files[0], "out")
    build(files[1], "out", "--append", *flags)
    run("drop", f"{root}/out", "--document", *map(str, documents), *flags)


def describe(root: str) -> dict[str, Any]:
    """Return the digests of all files, and of manifests the counts and splits."""
    described: dict[str, Any] = {}
    place = locate(root)
    for name in place.list():
        content = place.read(name)
        if not name.endswith(_DESCRIBED):
            described[name] = hashlib.sha256(content).hexdigest()
        elif name.endswith("dataset.json"):
            manifest = json.loads(content)
            described[name] = [manifest[key] for key in ("counts", "splits")]
            described[name] += [manifest.get("removals"), manifest["provenance"]]
    return described


@pytest.fixture(scope="module")
def documents(
    halves: tuple[Path, Path], tokenizer_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> list[int]:
    """Every third document of the first half."""
    output = tmp_path_factory.mktemp("first") / "out"
    run_here(*command_of(halves[:1], tokenizer_path, output))
    return [one.document for one in list_documents(output)][::3]


@pytest.fixture(scope="module")
def expected(
    halves: tuple[Path, Path],
    documents: list[int],
    tokenizer_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> dict[str, Any]:
    """What comes of it on a disk."""
    folder = tmp_path_factory.mktemp("disk")
    change(str(folder), [*map(str, halves), str(tokenizer_path)], documents, ())
    assert verify(folder / "out") == []
    return describe(str(folder))


# `test_object_stores` has what differs between the stores.
@pytest.mark.parametrize("bucket", ["s3"], indirect=True)
def test_the_same_comes_of_it_as_on_a_disk(
    bucket: Bucket,
    halves: tuple[Path, Path],
    tokenizer_path: Path,
    documents: list[int],
    expected: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    names = ("in/first/text", "in/second/text", "tokenizer.json")
    for name, file in zip(names, (*halves, tokenizer_path), strict=True):
        write_file(f"{bucket.url}/{name}", file.read_bytes())
    # A job of many tasks would send a thousand requests to remove its temporary files.
    monkeypatch.setattr(transforms.commit.commit, "list_prefixes", lambda _: iter(()))
    files = [f"{bucket.url}/{name}" for name in names]
    change(bucket.url, files, documents, ["--fan-in", "2"], bucket.beam_arguments)
    described = describe(bucket.url)
    assert [described.pop(name) for name in names]
    assert described == expected

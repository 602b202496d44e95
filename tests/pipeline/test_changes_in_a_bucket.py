"""Text is added, documents are removed and data sets joined with everything in a bucket."""

import hashlib
import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import transforms.trees
from tests.tools.jobs import Outcome, command_of, run_here
from tests.tools.object_stores import Bucket
from tests.tools.origins import list_documents
from transforms.storage.files import list_folder, open_file, write_file

# What the manifest and the files that follow from it hold besides, the tokenizer's path.
_DESCRIBED = ("dataset.json", "README.md", "croissant.json", "_SUCCESS")


def change(root: str, files: Sequence[str], documents: list[int], flags: Sequence[str]) -> None:
    """Build, append, remove, choose and join below a root."""

    def run(*words: str) -> Outcome:
        return run_here(*words, *(("--", *flags) if flags else ()))

    def build(text: str, output: str, *options: str) -> None:
        command = command_of([text], files[2], f"{root}/{output}", *options)
        run(*map(str, command))

    build(files[0], "out")
    build(files[1], "out", "--append")
    build(files[1], "more")
    chosen = ("--document", *map(str, documents))
    run("subset", f"{root}/out", *chosen, "--output", f"{root}/part")
    run("drop", f"{root}/out", *chosen)
    run("merge", f"{root}/out", f"{root}/more", "--existing", "allow", "--output", f"{root}/all")
    for folder in ("out", "more", "part", "all"):
        verified = run("verify", f"{root}/{folder}")
        assert "are as they were written" in " ".join(verified.output.split()), verified.errors


def describe(root: str) -> dict[str, Any]:
    """Return the digests of all files, and of manifests the counts and splits."""
    described: dict[str, Any] = {}
    for path in list_folder(root):
        name = path.removeprefix(f"{root}/")
        with open_file(path) as stream:
            content = stream.read()
        if not name.endswith(_DESCRIBED):
            described[name] = hashlib.sha256(content).hexdigest()
        elif name.endswith("dataset.json"):
            manifest = json.loads(content)
            described[name] = [manifest[key] for key in ("counts", "splits")]
            described[name] += [manifest.get("removals"), manifest["provenance"]]
    return described


def test_the_same_comes_of_it_as_on_a_disk(
    bucket: Bucket,
    halves: tuple[Path, Path],
    tokenizer_path: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    names = ("in/first/text", "in/second/text", "tokenizer.json")
    for name, file in zip(names, (*halves, tokenizer_path), strict=True):
        write_file(f"{bucket.url}/{name}", file.read_bytes())
    local = [*map(str, halves), str(tokenizer_path)]
    run_here(*command_of(halves[:1], tokenizer_path, tmp_path / "whole"))
    documents = [one.document for one in list_documents(tmp_path / "whole")][::3]
    shutil.rmtree(tmp_path / "whole")
    change(str(tmp_path), local, documents, ())
    # Many tasks copy and move the files.
    monkeypatch.setattr(transforms.trees, "FAN_IN", 2)
    files = [f"{bucket.url}/{name}" for name in names]
    change(bucket.url, files, documents, bucket.beam_arguments)
    found = describe(bucket.url)
    assert [found.pop(name) for name in names]
    assert found == describe(str(tmp_path))

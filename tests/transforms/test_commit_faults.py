"""The commit, killed at each of its calls and repeated, and overtaken by another attempt."""

import hashlib
import json
import os
import shutil
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest

from corpusmill.dataset.manifest_entries import Generation, Provenance
from corpusmill.dataset.manifest_json import from_json, to_json
from corpusmill.dataset.shards import open_data_set
from corpusmill.location import locate
from tests.tools.faulty_files import AFTER, BEFORE, HALF, READS, FaultyFiles, KilledError
from tests.tools.moments import ALL_MOMENTS
from tests.tools.small_limits import stage_limits
from tests.transforms.test_commit import COUNTS, HEADER, JOINED, LAYOUT, Folders
from transforms.commit.commit import _Commit, _Decide, _End, _Finish
from transforms.commit.contents import Decision
from transforms.commit.groups import _copy, _HandleGroup, _ListGroups, _move, _PassOn
from transforms.elements import LinesFile
from transforms.recovery import CLAIM, Claim, take_claim
from transforms.shuffle.trees import _ListBlock

# The name of a case; whether an earlier data set is replaced or added to; whether the shards of a
# split are joined; whether groups of files are moved by tasks of their own.
CASES = {
    "a new data set": (None, False, False),
    "joined shards": (None, True, False),
    "in place of one": ("replaced", False, False),
    "joined, in place of one": ("replaced", True, False),
    "in groups": (None, False, True),
    "in groups, in place of one": ("replaced", False, True),
    "added to one": ("added", False, False),
    "in groups, added to one": ("added", False, True),
}
# Each case takes every third of its calls and begins at another one than the case before it: most
# calls are those of the others, too. `make test-kills` takes all of them.
_STRIDE = 1 if ALL_MOMENTS else 3
# The train shards have the names that later ones have, too; the validation shard has another.
EARLIER_NAMES = "{split}-{shard:05d}-of-00002.parquet"


def describe(generation: Generation) -> dict[str, Any]:
    """Return the manifest of a generation without its results."""
    header = from_json(HEADER)
    output = replace(header.output, validation_share=0.3)
    provenance = Provenance(1, (generation,))
    return to_json(replace(header, seed=LAYOUT.seed, output=output, provenance=provenance))


FIRST, MORE = Generation(0, LAYOUT), Generation(2, LAYOUT, "more1")


class Case:
    """An output folder before a commit, and the commit."""

    def __init__(self, root: Path, name: str) -> None:
        replaced, joined, in_groups = CASES[name]
        self.begin = [*CASES].index(name) % _STRIDE
        self.root, self.replaced = root, replaced is not None
        self.in_groups = in_groups
        self.folders = Folders(root)
        self.changes: dict[str, Any] = {"shards": self.folders.shards}
        if joined:
            shards = [*self.folders.shards, *self.folders.write_companions()]
            self.changes = {"shards": shards, **JOINED}
        if replaced == "added":
            self.changes["generation"] = FIRST
            self.changes["shards"] = [*self.folders.shards, *self.folders.write_provenance()]
            self.folders.set_stale(header=describe(FIRST))
        if replaced:
            self._commit_earlier(replaced)
        if replaced == "added":
            self._add()
        self._kept = root.parent / f"{root.name}-kept"
        shutil.copytree(root, self._kept)
        self._seen: set[frozenset[tuple[str, bytes]]] = set()

    def _commit_earlier(self, replaced: str) -> None:
        """Commit an earlier data set with other bytes of the same sizes."""
        kept = {path: path.read_bytes() for path in self.folders.temp.iterdir()}
        for path in kept:
            content = path.read_bytes()
            is_read = path.name.startswith("rejects-")
            other = content.replace(b"a.txt", b"b.txt") if is_read else content[::-1]
            path.write_bytes(other)
        files, rejects = (
            [
                file._replace(sha256=hashlib.sha256(Path(file.path).read_bytes()).hexdigest())
                for file in written
            ]
            for written in (self.changes["shards"], self.folders.rejects)
        )
        is_joined = "joined" in self.changes
        pattern = EARLIER_NAMES if replaced == "replaced" and not is_joined else None
        for name in ("run.json", "tokenizer.json"):
            path = self.folders.temp / name
            path.write_bytes(kept[path])
        _run(self, rejects, shards=files, shard_name=pattern)
        self.folders.temp.mkdir()
        for path, content in kept.items():
            path.write_bytes(content)
        self.folders.set_stale(*sorted(self.folders.files()))
        take_claim(str(self.folders.output), Claim("mine", str(self.folders.temp), "", 0, 0.0))

    def _add(self) -> None:
        """Let the commit add to the earlier data set, in which another run has left a shard."""
        output = self.folders.output
        left = output / "train-more1-00000-of-00007.parquet"
        left.write_bytes(b"left")
        earlier = json.loads((output / "dataset.json").read_bytes())
        self.folders.set_stale(left.name, header=describe(MORE), appended_to=earlier)
        self.changes["generation"] = MORE

    def look(self) -> None:
        """Check the folder, unless it has been found right with the same content before."""
        if not self.replaced and not (self.folders.output / "_SUCCESS").exists():
            return
        try:
            content = frozenset(self.folders.files().items())
        except FileNotFoundError:  # another thread of the commit moves it
            content = frozenset()
        if content not in self._seen:
            assert_whole(self.folders.output)
        if content:
            self._seen.add(content)

    def restore(self) -> None:
        """Restore the folder, by functions whose calls are not counted."""
        for folder, _, names in os.walk(self.root, topdown=False):
            for name in names:
                os.remove(Path(folder, name))  # noqa: PTH107  `Path.unlink` is counted
            os.rmdir(folder)  # noqa: PTH106  as above
        shutil.copytree(self._kept, self.root)


def _apply(dofn: beam.DoFn, elements: list[Any], *side_inputs: list[Any]) -> list[Any]:
    return [output for one in elements for output in dofn.process(one, *side_inputs)]


def _run(
    case: Case,
    rejects: list[LinesFile] | None = None,
    is_current: Callable[[], bool] = lambda: True,
    **changes: Any,
) -> None:
    """Make the commit; if groups are moved, an attempt ends with its stage once another is made."""
    changes = {**case.changes, **changes}
    shards = changes.pop("shards")
    options = replace(case.folders.options, **changes)
    counts = [*{**COUNTS, "read.rejects": 2}.items()]
    rejects = rejects or case.folders.rejects
    if not case.in_groups:
        committed = _apply(_Commit(Decision(options, LAYOUT)), [b""], shards, counts, rejects, [])
        assert _apply(_End(options.place, is_awaited=False), committed)
        return
    place = replace(options.place, limits=stage_limits(fan_in=2))
    options = replace(options, place=place)
    lists = _apply(_ListBlock(place), [(file.shard, [file]) for file in shards])
    decided = _apply(_Decide(Decision(options, LAYOUT)), [b""], lists, counts, rejects, [])
    stages: list[Callable[[list[Any]], list[Any]]] = [
        lambda paths: _apply(_ListGroups(), paths),
        lambda groups: _apply(_HandleGroup(place, _copy), groups),
        lambda copied: _apply(_PassOn(place), [b""], decided, copied),
        lambda groups: _apply(_HandleGroup(place, _move), groups),
        lambda moved: _apply(_Finish(place), [b""], decided, moved),
        lambda folders: _apply(_End(place, is_awaited=False), folders),
    ]
    outputs = decided
    for stage in stages:
        if is_current():
            outputs = stage(outputs)


def assert_whole(output: Path) -> None:
    """Check what a reader of the folder relies on at every moment from the first data set on."""
    folder, manifest = open_data_set(locate(str(output)))
    for entry in manifest.entries.values():
        assert hashlib.sha256(folder.read(entry.file)).hexdigest() == entry.sha256, entry.file


@pytest.fixture(params=CASES)
def case(request: pytest.FixtureRequest, tmp_path: Path) -> Case:
    return Case(tmp_path / "case", request.param)


def watch(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> tuple[FaultyFiles, dict[str, bytes], list[str]]:
    """Check the folder at every call from now on.

    Returns:
        Faulty files, the files of an undisturbed data set, and the calls that made it.
    """
    files = FaultyFiles(monkeypatch)
    files.kill(-1, AFTER)
    files.observe = case.look
    _run(case)
    final, calls = case.folders.files(), list(files.calls)
    case.restore()
    return files, final, calls


def test_a_commit_killed_at_any_call_is_finished_by_the_next_attempt(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    files, expected, calls = watch(case, monkeypatch)
    # After a call is before the next one, and before a read is before the next change.
    changes = [number for number, name in enumerate(calls) if name not in READS]
    for number in sorted({*changes[case.begin :: _STRIDE], changes[-1]}):
        name, last = calls[number], (AFTER,) if number == changes[-1] else ()
        half = (HALF,) if name in {"rename", "write"} else ()
        for moment in (BEFORE, *half, *last):
            files.kill(number, moment)
            with pytest.raises(KilledError):
                _run(case)
            files.kill(-1, AFTER)
            _run(case)
            assert case.folders.files() == expected, f"{moment} call {number}, {name}"
            case.restore()


class _Attempt:
    """An attempt in a thread, which pauses after a call until `resume`."""

    def __init__(self, case: Case, files: FaultyFiles, number: int) -> None:
        self._case, self._paused, self._resumed = case, threading.Event(), threading.Event()
        self.failure: BaseException | None = None
        self._thread = threading.Thread(target=self._work, daemon=True)
        files.pause(number, self._thread, self._wait)
        self._thread.start()
        self._paused.wait()

    def _wait(self) -> None:
        self._paused.set()
        self._resumed.wait()

    def _work(self) -> None:
        try:
            _run(self._case, is_current=lambda: not self._paused.is_set())
        except Exception as error:
            self.failure = error
        finally:
            self._paused.set()

    def resume(self) -> None:
        self._resumed.set()
        self._thread.join()


def test_a_commit_that_another_attempt_overtakes_at_any_call_does_no_harm(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    files, expected, calls = watch(case, monkeypatch)
    for number in range(case.begin, len(calls), _STRIDE):
        name, slow = calls[number], _Attempt(case, files, number)
        try:
            _run(case)
        finally:
            slow.resume()
        assert case.folders.files() == expected, f"after call {number}, {name}"
        assert not (case.folders.output / CLAIM).exists(), f"after call {number}, {name}"
        left = list(case.folders.output.glob("_temporary-*"))
        assert left == [], f"after call {number}, {name}: {slow.failure}"
        case.restore()

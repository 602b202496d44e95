"""What is left of a run that was stopped while its files took their places."""

from collections.abc import Sequence
from pathlib import Path

import pytest

import transforms.commit.replace
from corpusmill.dataset.manifest import MANIFEST, SUCCESS
from corpusmill.dataset.shards import generation_of, open_data_set, refer_to
from corpusmill.location import locate
from pipeline.folders.output import EDIT, Intent, check_output
from pipeline.folders.run_folder import settle
from tests.tools.jobs import run_here
from transforms.commit.rename import Move
from transforms.commit.replace import publish_files


@pytest.fixture
def stopped(sample: Path, tokenizer_path: Path, tmp_path: Path) -> Path:
    """A folder whose files were about to take their places when a run was stopped."""
    output, new = tmp_path / "out", tmp_path / "new"
    for folder, seed in ((output, "1"), (new, "2")):
        files = ("--input", sample, "--tokenizer", tokenizer_path, "--output", folder)
        run_here("bert", *files, "--duplicates", "1", "--seed", seed)
    content = (new / SUCCESS).read_bytes()
    (output / SUCCESS).write_bytes(refer_to(content))
    new.rename(output / generation_of(content))
    return output


def test_readers_see_the_new_data_set_whenever_it_is_stopped_again(
    stopped: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    moved: list[str] = []

    def watch(moves: Sequence[Move], scratch: str) -> None:
        for move in moves:
            assert _read_seed(stopped) == "2"
            publish_files([move], scratch)
            moved.append(Path(move.destination).name)

    monkeypatch.setattr(transforms.commit.replace, "publish_files", watch)
    output = locate(str(stopped))
    intent = Intent(EDIT, changes=True)
    found = check_output(output, None, intent)
    assert found.has_revealed
    assert not settle(found, EDIT).has_revealed
    # A manifest beside files of the old data set would be that of nothing.
    assert moved[-2:] == [MANIFEST, SUCCESS]
    assert {*moved[:-2]}.isdisjoint({MANIFEST, SUCCESS})
    assert not [*stopped.glob("_generation*")]
    assert _read_seed(stopped) == "2"
    assert "was written" in run_here("verify", stopped).output
    assert not check_output(output, None, intent).has_revealed


def _read_seed(folder: Path) -> str:
    return str(open_data_set(locate(str(folder)))[1].seed)

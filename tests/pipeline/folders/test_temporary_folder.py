from pathlib import Path

import pytest

from corpusmill.errors import UserError
from corpusmill.location import locate
from pipeline.folders.run_folder import temporary_folder


def test_a_temporary_folder_lives_as_long_as_its_run(tmp_path: Path) -> None:
    output = tmp_path / "new" / "out"
    with temporary_folder(locate(str(output)), None) as folder:
        assert Path(folder).parent == output
        (Path(folder) / "spill").write_text("rows")
        (output / "train-00000-of-00001.parquet").write_text("rows")
    assert [path.name for path in output.iterdir()] == ["train-00000-of-00001.parquet"]


def test_a_run_that_fails_leaves_no_folder_that_it_made(tmp_path: Path) -> None:
    output = tmp_path / "out"

    def run() -> None:
        with temporary_folder(locate(str(output)), None) as folder:
            (Path(folder) / "spill").write_text("rows")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run()
    assert not output.exists()


def test_a_folder_that_was_there_stays(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="x"), temporary_folder(locate(str(tmp_path)), None):
        raise ValueError("x")
    assert tmp_path.exists()
    assert list(tmp_path.iterdir()) == []


def test_temporary_files_can_lie_elsewhere(tmp_path: Path) -> None:
    with temporary_folder(locate(str(tmp_path / "out")), locate(str(tmp_path / "temp"))) as folder:
        assert Path(folder).parent == tmp_path / "temp"
        assert not (tmp_path / "out").exists()
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_exists_stays_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = tmp_path / f"_temporary-{'0a' * 16}"
    mine.mkdir()
    monkeypatch.setattr("pipeline.folders.run_folder.new_folder", lambda *_: locate(str(mine)))
    (mine / "file").write_bytes(b"mine")
    with (
        pytest.raises(UserError, match="which is not ours"),
        temporary_folder(locate(str(tmp_path)), None),
    ):
        pass
    assert (mine / "file").read_bytes() == b"mine"


def test_a_folder_that_cannot_be_made_is_named_with_its_flag(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    below = str(tmp_path / "file" / "folder")
    with (
        pytest.raises(UserError, match="no folder can be made there") as caught,
        temporary_folder(locate(below), None),
    ):
        pass
    assert caught.value.value == f"--output {below}"
    with (
        pytest.raises(UserError, match="no folder can be made there") as caught,
        temporary_folder(locate("/o"), locate(below)),
    ):
        pass
    assert caught.value.value == f"--temp-location {below}"

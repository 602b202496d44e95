from pathlib import Path

import pytest

from corpusmill.dataset.manifest import Split
from corpusmill.dataset.manifest_json import encode
from corpusmill.errors import UserError
from pipeline.preparation.beam_folder import BeamFolder
from pipeline.preparation.output import check_output, temporary_folder
from tests.tools.manifests import small_manifest, small_shard

DATA_SET = [
    "README.md", "_SUCCESS", "_temporary-0a/pool-1/documents.npy", "dataset.json",
    "rejects/rejects.jsonl", "tokenizer.json", "train-00000-of-00002.parquet",
    "validation-00001-of-00002.parquet",
]  # fmt: skip


def fill(folder: Path, names: list[str]) -> str:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)
    return str(folder)


def test_a_folder_is_listed_with_sizes_and_names_relative_to_it(tmp_path: Path) -> None:
    folder = fill(tmp_path / "out", DATA_SET)
    assert BeamFolder(folder).list() == {name: len(name) for name in DATA_SET}
    assert BeamFolder(f"{folder}/").list() == BeamFolder(folder).list()
    assert BeamFolder(str(tmp_path / "missing")).list() == {}


def test_a_new_and_an_empty_folder_are_fine(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for name in ("missing", "empty"):
        assert check_output(str(tmp_path / name), replace=False) == ()
        assert check_output(str(tmp_path / name), replace=True) == ()


def test_a_data_set_is_replaced_where_asked(tmp_path: Path) -> None:
    folder = fill(tmp_path / "out", DATA_SET)
    assert check_output(folder, replace=True) == tuple(sorted(DATA_SET))
    with pytest.raises(
        UserError, match=r"it is not empty .*\. Give another folder, or add --replace"
    ):
        check_output(folder, replace=False)


def test_a_data_set_with_names_of_its_own_is_replaced(tmp_path: Path) -> None:
    pattern = "pretrain_data.tfrecord-{shard}-of-{shards}"
    names = [f"pretrain_data.tfrecord-{number}-of-12" for number in (0, 11)]
    folder = fill(tmp_path / "out", ["_SUCCESS", *names])
    # Left by a failed run with this pattern, or else listed in the manifest.
    assert check_output(folder, True, pattern) == ("_SUCCESS", *names)
    with pytest.raises(UserError, match="it has a file that is not part of a data set"):
        check_output(folder, replace=True)
    shards = [small_shard(name, rows=0, tokens=0) for name in names]
    manifest = small_manifest(splits={"train": Split.from_shards(shards, {})})
    (tmp_path / "out" / "dataset.json").write_bytes(encode(manifest))
    assert set(check_output(folder, replace=True)) == {"_SUCCESS", "dataset.json", *names}
    fill(tmp_path / "out", ["thesis.txt"])
    with pytest.raises(UserError, match=r"thesis\.txt"):
        check_output(folder, True, pattern)


def test_an_unfinished_data_set_is_called_so(tmp_path: Path) -> None:
    folder = fill(tmp_path / "out", [name for name in DATA_SET if name != "_SUCCESS"])
    with pytest.raises(UserError, match="it has an unfinished data set"):
        check_output(folder, replace=False)


@pytest.mark.parametrize(
    "foreign",
    [
        "thesis.txt", "train-00000-of-00002.parquet.bak", "train-0-of-2.parquet", "rejects/other",
        "more/train-00000-of-00002.parquet", "temporary-0a/x", "test-00000-of-00002.parquet",
    ],
)  # fmt: skip
@pytest.mark.parametrize("replace", [False, True])
def test_a_file_that_is_not_ours_is_never_replaced(
    tmp_path: Path, foreign: str, replace: bool
) -> None:
    folder = fill(tmp_path / "out", [*DATA_SET, foreign])
    with pytest.raises(UserError) as caught:
        check_output(folder, replace)
    assert "--replace" not in caught.value.cure
    if replace:
        assert foreign in caught.value.cause


def test_a_temporary_folder_lives_as_long_as_its_run(tmp_path: Path) -> None:
    output = tmp_path / "new" / "out"
    with temporary_folder(str(output), None) as folder:
        assert Path(folder).parent == output
        (Path(folder) / "spill").write_text("rows")
        (output / "train-00000-of-00001.parquet").write_text("rows")
    assert [path.name for path in output.iterdir()] == ["train-00000-of-00001.parquet"]


def test_a_run_that_fails_leaves_no_folder_that_it_made(tmp_path: Path) -> None:
    output = tmp_path / "out"

    def run() -> None:
        with temporary_folder(str(output), None) as folder:
            (Path(folder) / "spill").write_text("rows")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run()
    assert not output.exists()


def test_a_folder_that_was_there_stays(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="x"), temporary_folder(str(tmp_path), None):
        raise ValueError("x")
    assert tmp_path.exists()
    assert list(tmp_path.iterdir()) == []


def test_temporary_files_can_lie_elsewhere(tmp_path: Path) -> None:
    with temporary_folder(str(tmp_path / "out"), str(tmp_path / "temp")) as folder:
        assert Path(folder).parent == tmp_path / "temp"
        assert not (tmp_path / "out").exists()
    assert list(tmp_path.iterdir()) == []


def test_what_earlier_runs_left_goes_only_where_it_holds_nothing(tmp_path: Path) -> None:
    (tmp_path / "_temporary-old" / "pool").mkdir(parents=True)
    fill(tmp_path / "_temporary-other", ["spill"])
    with temporary_folder(str(tmp_path), None):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["_temporary-other"]


def test_a_folder_that_cannot_be_made_is_named_with_its_flag(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    below = str(tmp_path / "file" / "folder")
    with (
        pytest.raises(UserError, match="no folder can be made there") as caught,
        temporary_folder(below, None),
    ):
        pass
    assert caught.value.value == f"--output {below}"
    with (
        pytest.raises(UserError, match="no folder can be made there") as caught,
        temporary_folder("/o", below),
    ):
        pass
    assert caught.value.value == f"--temp-location {below}"

import os
import socket
import time
from pathlib import Path

import psutil
import pytest

from corpusmill.dataset.manifest import Split
from corpusmill.dataset.manifest_json import encode
from corpusmill.errors import UserError
from corpusmill.location import locate
from pipeline.folders.output import check_output, is_complete
from pipeline.folders.run_folder import make_temporary_folder
from tests.tools.manifests import small_manifest, small_shard
from transforms.recovery import CLAIM, COMMITTED, FAILED, Claim, Workplace, end_claim, take_claim

TEMPORARY = f"_temporary-{'0a' * 16}"

DATA_SET = [
    "README.md", "_SUCCESS", f"{TEMPORARY}/corpusmill-run.json",
    f"{TEMPORARY}/pool-1/documents.npy", "dataset.json", "rejects/rejects.jsonl",
    "tokenizer.json", "train-00000-of-00002.parquet", "validation-00001-of-00002.parquet",
]  # fmt: skip


def fill(folder: Path, names: list[str]) -> str:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)
    return str(folder)


def test_a_folder_is_listed_with_sizes_and_names_relative_to_it(tmp_path: Path) -> None:
    folder = fill(tmp_path / "out", DATA_SET)
    assert locate(folder).list() == {name: len(name) for name in DATA_SET}
    assert locate(f"{folder}/").list() == locate(folder).list()
    assert locate(str(tmp_path / "missing")).list() == {}


def test_a_new_and_an_empty_folder_are_fine(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for name in ("missing", "empty"):
        assert check_output(locate(str(tmp_path / name)), replace=False) == ()
        assert check_output(locate(str(tmp_path / name)), replace=True) == ()


def test_a_data_set_is_replaced_where_asked(tmp_path: Path) -> None:
    folder = fill(tmp_path / "out", DATA_SET)
    assert check_output(locate(folder), replace=True) == tuple(sorted(DATA_SET))
    with pytest.raises(
        UserError, match=r"it is not empty .*\. Give another folder, or add --replace"
    ):
        check_output(locate(folder), replace=False)


def test_a_data_set_with_names_of_its_own_is_replaced(tmp_path: Path) -> None:
    pattern = "pretrain_data.tfrecord-{shard}-of-{shards}"
    names = [f"pretrain_data.tfrecord-{number}-of-12" for number in (0, 11)]
    folder = fill(tmp_path / "out", ["_SUCCESS", *names])
    # Left by a failed run with this pattern, or else listed in the manifest.
    assert check_output(locate(folder), True, pattern) == ("_SUCCESS", *names)
    with pytest.raises(UserError, match="it has a file that is not part of a data set"):
        check_output(locate(folder), replace=True)
    shards = [small_shard(name, rows=0, tokens=0) for name in names]
    manifest = small_manifest(splits={"train": Split.from_shards(shards, {})})
    (tmp_path / "out" / "dataset.json").write_bytes(encode(manifest))
    assert set(check_output(locate(folder), replace=True)) == {"_SUCCESS", "dataset.json", *names}
    fill(tmp_path / "out", ["thesis.txt"])
    with pytest.raises(UserError, match=r"thesis\.txt"):
        check_output(locate(folder), True, pattern)


def test_an_unfinished_data_set_is_called_so(tmp_path: Path) -> None:
    folder = fill(tmp_path / "out", [name for name in DATA_SET if name != "_SUCCESS"])
    with pytest.raises(UserError, match="it has an unfinished data set"):
        check_output(locate(folder), replace=False)


@pytest.mark.parametrize(
    "foreign",
    [
        "thesis.txt", "train-00000-of-00002.parquet.bak", "train-0-of-2.parquet", "rejects/other",
        "more/train-00000-of-00002.parquet", "temporary-0a/x", "test-00000-of-00002.parquet",
        "_temporary-0a/x", "_temporary-0a/corpusmill-run.json", f"_temporary-{'1b' * 16}/x",
    ],
)  # fmt: skip
@pytest.mark.parametrize("replace", [False, True])
def test_a_file_that_is_not_ours_is_never_replaced(
    tmp_path: Path, foreign: str, replace: bool
) -> None:
    folder = fill(tmp_path / "out", [*DATA_SET, foreign])
    with pytest.raises(UserError) as caught:
        check_output(locate(folder), replace)
    assert "--replace" not in caught.value.cure
    if replace:
        assert foreign in caught.value.cause


def stop(output: Path, **changes: object) -> Path:
    """Leave the claim of a run that was stopped; return its temporary folder."""
    folder = make_temporary_folder(locate(str(output)), None)
    fields = {"token": "t", "temp_folder": folder, "host": "x", "process": 1, "started": 1.0}
    take_claim(str(output), Claim(**fields | changes))  # type: ignore[arg-type]
    return Path(folder)


def test_a_run_that_was_stopped_is_resumed_or_replaced(tmp_path: Path) -> None:
    output = str(tmp_path)
    stop(tmp_path)
    assert check_output(locate(output), replace=False, resume=True) == ()
    assert check_output(locate(output), replace=True) == ()
    with pytest.raises(UserError, match=r"unfinished .* or add --resume, or add --replace"):
        check_output(locate(output), replace=False)


@pytest.mark.parametrize(
    "content",
    ["", "{", "[]", "null", '{"token": "x"}', "\0" * 90, b"\xff\xfe",
     '{"token":"t","temp_folder":7,"host":"x","process":1,"started":1}',
     '{"token":"t","temp_folder":"/","host":"x","process":"1","started":1}'],
)  # fmt: skip
def test_a_damaged_claim_is_explained_and_replaced(tmp_path: Path, content: str | bytes) -> None:
    output = str(tmp_path)
    (tmp_path / CLAIM).write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(UserError, match=f"{CLAIM} is damaged.* Start over with --replace"):
        check_output(locate(output), replace=False, resume=True)
    with pytest.raises(UserError, match=r"unfinished data set\. Give another folder, or add --rep"):
        check_output(locate(output), replace=False)
    assert check_output(locate(output), replace=True) == ()


def test_only_a_folder_of_a_run_into_the_same_output_is_resumed(tmp_path: Path) -> None:
    output, other = tmp_path / "out", tmp_path / "other"
    folder = stop(output)
    claim = (output / CLAIM).read_bytes()
    for path in (other, tmp_path / "temp"):
        path.mkdir()
    (other / CLAIM).write_bytes(claim)
    with pytest.raises(UserError, match=f"worked in {folder}, which is not a temporary folder"):
        check_output(locate(str(other)), replace=False, resume=True)
    # Not even where this run's temporary folders are.
    with pytest.raises(UserError, match=r"start over with --replace"):
        check_output(
            locate(str(other)), replace=False, resume=True, temp_location=locate(str(output))
        )
    (folder / "corpusmill-run.json").unlink()
    with pytest.raises(UserError, match="which is not a temporary folder"):
        check_output(locate(str(output)), replace=False, resume=True)


def test_the_job_of_a_run_whose_command_is_gone_is_left_alone_until_it_is_silent(
    tmp_path: Path,
) -> None:
    folder = stop(tmp_path, outlives=True)
    Workplace(str(folder)).give_sign()
    for resume in (False, True):
        with pytest.raises(UserError, match=r"process 1 on x\) writes .* sign of life is 0 s"):
            check_output(locate(str(tmp_path)), replace=not resume, resume=resume)
    [sign] = folder.glob("alive-*")
    os.utime(sign, (time.time() - 301,) * 2)
    assert check_output(locate(str(tmp_path)), replace=False, resume=True) == ()
    Workplace(str(folder)).give_sign()
    end_claim(str(tmp_path), "t", FAILED, UserError("--max-rejects 5", "9 lines are rejects", ""))
    assert check_output(locate(str(tmp_path)), replace=False, resume=True) == ()
    with pytest.raises(
        UserError, match=r"ended with: --max-rejects 5: 9 lines are rejects\)\. Giv"
    ):
        check_output(locate(str(tmp_path)), replace=False)


def test_what_a_killed_command_has_left_of_a_finished_run_is_removed(tmp_path: Path) -> None:
    folder = stop(tmp_path)
    (tmp_path / "_SUCCESS").touch()
    assert not is_complete(locate(str(tmp_path)), None)
    end_claim(str(tmp_path), "t", COMMITTED)
    check_output(locate(str(tmp_path)), replace=False, resume=True)
    assert is_complete(locate(str(tmp_path)), None)
    assert not folder.exists()
    assert [path.name for path in tmp_path.iterdir()] == ["_SUCCESS"]


def test_a_run_at_work_is_left_alone(tmp_path: Path) -> None:
    parent = psutil.Process(os.getppid())
    stop(tmp_path, host=socket.gethostname(), process=parent.pid, started=parent.create_time())
    for resume in (False, True):
        with pytest.raises(UserError, match=rf"another run \(process {parent.pid}\) writes"):
            check_output(locate(str(tmp_path)), replace=not resume, resume=resume)

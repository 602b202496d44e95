import bz2
import gzip
import os
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from corpusmill.errors import UserError
from corpusmill.tokenization.sources.read import read_tokenizer
from pipeline.recipe.inputs import InputFile, list_inputs, read_bytes
from tests.tools.jobs import run_here
from tests.tools.knobs import knobs
from tests.tools.table_rows import for_rows
from transforms.storage.files import create_file, locate, open_file

WHOLE = ["[1].txt", "a.txt", "b.gz", "more/c.txt", "more/deep/d.txt"]


@pytest.fixture
def corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with files of one to five bytes."""
    folder = tmp_path / "corpus"
    for size, name in enumerate(
        ("a.txt", "b.gz", "more/c.txt", "more/deep/d.txt", "[1].txt"), start=1
    ):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("x" * size)
    (folder / ".hidden").write_text("x")
    monkeypatch.chdir(folder)
    return folder


def names(*inputs: str, temp: str = "/nowhere") -> list[str]:
    return [file.name for file in list_inputs(inputs, temp)]


def test_a_file_is_known_by_its_absolute_path_its_size_and_its_name(corpus: Path) -> None:
    path = corpus / "more" / "c.txt"
    modified = path.stat().st_mtime
    assert list_inputs(["more/c.txt"], "/nowhere") == [InputFile(str(path), 3, "c.txt", modified)]


@for_rows(
    "inputs",
    [
        (".",), ("../corpus",), ("../corpus/",), ("more", "."), ("**/*.txt", "b.gz", "[[]1].txt"),
        ("[1].txt", "more/deep", "more", "./b.gz", "*.txt", "more/../a.txt"),
    ],
)  # fmt: skip
def test_any_way_of_naming_them_gives_the_same_files(corpus: Path, inputs: tuple[str, ...]) -> None:
    whole = list_inputs([str(corpus)], "/nowhere")
    assert [file.name for file in whole] == WHOLE
    assert list_inputs(inputs, "/nowhere") == whole


@pytest.mark.usefixtures("corpus")
def test_names_are_relative_to_the_folder_that_holds_all_files() -> None:
    assert names("more") == ["c.txt", "deep/d.txt"]
    assert names("a.txt") == ["a.txt"]
    assert names("a.txt", "more/deep/d.txt") == ["a.txt", "more/deep/d.txt"]


def test_links_to_folders_are_followed_and_each_folder_is_read_once(corpus: Path) -> None:
    other = corpus.with_name("other")
    other.mkdir()
    (other / "e.txt").write_text("x")
    (other / "back").symlink_to(corpus)
    (corpus / "more" / "linked").symlink_to(other)
    (corpus / "more" / "loop").symlink_to(corpus / "more")
    assert names(".") == [*WHOLE, "more/linked/e.txt"]
    corpus.with_name("link").symlink_to(corpus)
    assert names("../link") == [*WHOLE, "more/linked/e.txt"]


def test_files_that_start_with_a_point_are_left_out_of_folders(corpus: Path) -> None:
    assert ".hidden" not in names(str(corpus))
    assert names(".hidden") == [".hidden"]


def test_the_home_folder_is_known(corpus: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(corpus))
    assert names("~/more") == ["c.txt", "deep/d.txt"]


def test_compressed_files_are_read_whole(corpus: Path) -> None:
    (corpus / "c").write_bytes(gzip.compress(b"text"))
    by_name = {
        file.name: file.content.is_in_ranges for file in list_inputs([str(corpus)], "/nowhere")
    }
    assert by_name["a.txt"]
    assert by_name["b.gz"]  # it is text, whatever its name says
    assert not by_name["c"]


@for_rows("pattern", ["missing.txt", "*.parquet", "more/missing/", "missing/*.txt"])
def test_what_names_no_file_is_refused(corpus: Path, pattern: str) -> None:
    with pytest.raises(UserError, match="no such file") as caught:
        names(str(corpus), pattern)
    assert caught.value.value == f"--input {pattern}"


def test_what_cannot_be_listed_or_opened_is_refused(
    corpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for function, name, cause in (
        ("scandir", "deep", r"deep cannot be listed \(Permission denied\)"),
        ("open", "c.txt", r"c\.txt: it cannot be read \(Permission denied\)"),
    ):
        real = getattr(os, function)

        def refuse(path: str, *flags: int, name: str = name, real: Any = real) -> object:
            if str(path).endswith(name):
                raise PermissionError(13, "Permission denied", str(path))
            return real(path, *flags)

        with monkeypatch.context() as patch:
            patch.setattr(os, function, refuse)
            with pytest.raises(UserError, match=cause):
                names(str(corpus))


def test_what_is_no_file_is_refused_without_waiting_for_its_writer(corpus: Path) -> None:
    (corpus / "none").mkdir()
    (corpus / "more" / "link").symlink_to("nowhere")
    os.mkfifo(corpus / "pipe.txt")
    for path, cause in (
        ("none", "none: the folder has no files"),
        ("more", r"link: it cannot be read \(No such file or directory\)"),
        ("more/link", r"link: it cannot be read \(No such file or directory\)"),
        ("/dev/null", "/dev/null: it is not a regular file"),
        (str(corpus), r"pipe\.txt: it is not a regular file"),
    ):
        if path == str(corpus):
            (corpus / "more" / "link").unlink()
        with pytest.raises(UserError, match=cause):
            names(path)


def test_files_without_a_byte_are_refused_only_where_all_are_empty(corpus: Path) -> None:
    (corpus / "empty").write_text("")
    assert names("empty", "a.txt") == ["a.txt", "empty"]
    with pytest.raises(UserError, match="all files are empty"):
        names("empty")


def test_an_output_folder_within_the_input_is_refused(corpus: Path) -> None:
    with pytest.raises(UserError, match="the output folder is inside it"):
        names(str(corpus), temp=str(corpus / "out" / "_temporary-1"))


@pytest.mark.usefixtures("corpus")
def test_a_data_set_of_the_hub_is_ordered_by_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fetch(name: str, folder: Path) -> Path:
        folder.mkdir(parents=True)
        (folder / "text").write_text(name)
        return folder / "text"

    monkeypatch.setattr("pipeline.recipe.inputs.fetch_wikitext", fetch)
    files = list_inputs(["wikitext-2", "more"], str(tmp_path / "temp"))
    assert [file.name for file in files] == ["c.txt", "deep/d.txt", "wikitext-2"]
    assert files[-1].path == str(tmp_path / "temp" / "wikitext-2" / "text")


def test_a_path_is_absolute_and_a_url_as_it_is(corpus: Path) -> None:
    assert locate("more/../a.txt").url == str(corpus / "a.txt")
    assert str(locate("more/../a.txt")) == "more/../a.txt"
    assert locate("gs://bucket/../a/").url == "gs://bucket/../a"
    assert locate("more/../a.txt") == locate("./a.txt")
    with pytest.raises(UserError, match="no installed file system knows"):
        locate("file:///a")  # other machines would take it for theirs


@pytest.mark.parametrize("name", ["t.json", "tokenizer_config.json"])
def test_a_pipe_among_the_files_of_a_tokenizer_is_refused(name: str, tmp_path: Path) -> None:
    (tmp_path / "t.json").write_text("{}")
    (tmp_path / name).unlink(missing_ok=True)
    os.mkfifo(tmp_path / name)
    with pytest.raises(UserError, match=f"{name}: it is not a regular file"):
        read_tokenizer(str(tmp_path / "t.json"), read_bytes)


def test_pipes_in_the_places_of_outputs_are_refused(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(UserError, match=f"--html {pipe}: a file cannot be written there"):
        locate(str(pipe)).check_file("html", b"<")
    with pytest.raises(OSError, match="it is not a regular file"):
        create_file(str(pipe))
    with pytest.raises(OSError, match="it is not a regular file"):
        open_file(str(pipe))
    text = tmp_path / "text.txt"
    text.write_text("Some text .\n")
    arguments = ("train-tokenizer", "--input", text, "--output")
    run_here(*arguments, pipe, refused=[f"--output {pipe}", "it is not a regular file"])
    more = ("--save-model", pipe)
    run_here(*arguments, tmp_path / "t.json", *more, refused=[f"--save-model {pipe}"])


LEFT_BEHIND = (
    "_SUCCESS", "_metadata", "_common_metadata", "part-0.txt.crc", "_committed_12", "_started_12",
    "_delta_log/0.json", "_temporary/0/part-1", "deep/_SUCCESS",
)  # fmt: skip


@pytest.mark.parametrize("given", [".", "out", "out/*", "out/**/*"])
def test_what_programs_leave_beside_data_is_left_out_and_counted(
    tmp_path: Path, given: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("part-0.txt", "deep/_intro.txt", *LEFT_BEHIND):
        path = tmp_path / "out" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")
    console = Console(record=True, width=200)
    files = list_inputs([given], "/nowhere", console=console)
    own = ["part-0.txt"] if given == "out/*" else ["deep/_intro.txt", "part-0.txt"]
    assert [file.name.removeprefix("out/") for file in files] == own
    number = 6 if given == "out/*" else len(LEFT_BEHIND)
    assert f"input: left out {number} files without data (" in console.export_text()
    assert names("out/_SUCCESS", "out/_metadata") == ["_SUCCESS", "_metadata"]


def test_a_folder_of_nothing_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "_SUCCESS").write_text("")
    with pytest.raises(UserError, match="nothing but what programs leave beside data"):
        list_inputs([str(tmp_path)], "/nowhere")


def test_of_files_that_take_long_to_look_at_some_are_looked_at(tmp_path: Path) -> None:
    for number in range(9):
        (tmp_path / f"{number}.bz2").write_bytes(bz2.compress(b"text" * (1 + 999 * (number == 8))))
    (tmp_path / "a.txt").write_bytes(gzip.compress(b"text"))
    with knobs(looked_at_files=30, looked_at_bytes=(tmp_path / "8.bz2").stat().st_size):
        files = {file.name: file for file in list_inputs([str(tmp_path)], "/nowhere")}
    known = [name for name, file in files.items() if file.content.is_known]
    assert known == ["0.bz2", "3.bz2", "6.bz2", "8.bz2", "a.txt"]
    assert {file.content.compression for file in files.values()} == {".bz2", ".gz"}
    assert not any(file.content.is_in_ranges for file in files.values())


def test_text_with_carriage_returns_alone_is_read_whole(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"one\rtwo\r")
    (tmp_path / "b.txt").write_bytes(b"one\r\ntwo\r\n")
    files = list_inputs([str(tmp_path)], "/nowhere")
    assert [file.content.is_in_ranges for file in files] == [False, True]
    assert [file.cost for file in files] == [8, 10]

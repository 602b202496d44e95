"""Listing and reading files of data sets on the hub, from a server on the loopback."""

import socket
from collections.abc import Iterator

import huggingface_hub.constants
import pytest

from corpusmill.corpus.hub_data_sets import is_hub_path, list_hub_files, split_of
from corpusmill.errors import UserError
from corpusmill.location import locate
from tests.tools.loopback_hub import COMMIT, CONVERTED_COMMIT, DataSet, Hub, serve

PLAIN = {
    "README.md": b"# plain", ".gitattributes": b"x", "a.jsonl": b'{"text": "a"}\n' * 9,
    "texts/b.txt": b"b\n", "texts/deep/c.txt": b"c" * 10_000_000, "texts/d.md": b"",
}  # fmt: skip
ONE = "data/train-00000-of-00002.parquet", "data/train-00001-of-00002.parquet"
DATA_SETS = {
    "org/plain": DataSet(PLAIN),
    "org/parquet": DataSet(dict.fromkeys((*ONE, "data/test-0.parquet", "README.md"), b"P")),
    "org/nosplits": DataSet({"x/0.parquet": b"P", "y/0.parquet": b"P"}),
    "org/testonly": DataSet({"test/0.parquet": b"P"}),
    "org/configured": DataSet(
        {"en/0.parquet": b"P", "de/0.parquet": b"P"},
        {"configs": [{"config_name": "en"}, {"config_name": "de"}]},
    ),
    "org/converted": DataSet(
        {"a.csv": b"x"},
        converted={"default/train/0000.parquet": b"P", "default/test/0000.parquet": b"P"},
    ),
    "org/many": DataSet(
        {"a.csv": b"x"}, converted={"en/train/0.parquet": b"P", "de/train/0.parquet": b"P"}
    ),
    "org/gated": DataSet({"a.jsonl": b"secret"}, gated=True),
}


@pytest.fixture(scope="module")
def hub() -> Iterator[Hub]:
    with serve(DATA_SETS) as server:
        yield server


def direct(monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    """Do what HF_ENDPOINT does, which the client reads when it is imported."""
    template = address + "/{repo_id}/resolve/{revision}/{filename}"
    monkeypatch.setattr(huggingface_hub.constants, "ENDPOINT", address)
    monkeypatch.setattr(huggingface_hub.constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)


@pytest.fixture(autouse=True)
def _endpoint(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    direct(monkeypatch, hub.address)
    monkeypatch.setenv("NO_PROXY", "*")
    monkeypatch.delenv("HF_TOKEN", raising=False)


def paths(name: str, *suffixes: str) -> list[str]:
    """List files without their data set and commit, which are checked."""
    root = "/".join(name.partition("@")[0].split("/")[:5])
    listed = list(list_hub_files(name, suffixes))
    for path in listed:
        assert path.startswith((f"{root}@{COMMIT}/", f"{root}@{CONVERTED_COMMIT}/"))
    return [path.partition("@")[2].partition("/")[2] for path in listed]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("org/plain/a.jsonl", ["a.jsonl"]),
        ("org/plain@v1/a.jsonl", ["a.jsonl"]),
        (f"org/plain@{COMMIT}/a.jsonl", ["a.jsonl"]),
        ("org/plain/*.jsonl", ["a.jsonl"]),
        ("org/plain/**/*.txt", ["texts/b.txt", "texts/deep/c.txt"]),
        ("org/plain/texts/*.txt", ["texts/b.txt"]),
        ("org/plain/texts", ["texts/b.txt", "texts/d.md", "texts/deep/c.txt"]),
        ("org/plain/texts/", ["texts/b.txt", "texts/d.md", "texts/deep/c.txt"]),
        ("org/parquet", list(ONE)),
        ("org/parquet/data/*.parquet", ["data/test-0.parquet", *ONE]),
        ("org/nosplits", ["x/0.parquet", "y/0.parquet"]),
        ("org/configured/en", ["en/0.parquet"]),
        ("org/converted", ["default/train/0000.parquet"]),
        ("org/many@refs/convert/parquet/de/train", ["de/train/0.parquet"]),
        ("org/many@refs%2Fconvert%2Fparquet/de/train", ["de/train/0.parquet"]),
    ],
)  # fmt: skip
def test_a_name_means_files_at_a_commit(name: str, expected: list[str]) -> None:
    assert paths(f"hf://datasets/{name}") == expected


def test_suffixes_choose_files_of_a_data_set_and_of_its_folders() -> None:
    root = "hf://datasets/org/plain"
    assert paths(root, ".txt") == ["texts/b.txt", "texts/deep/c.txt"]
    assert paths(f"{root}/texts", ".md") == ["texts/d.md"]
    with pytest.raises(UserError, match=r"--suffixes \.html: .*there are \.jsonl, \.md, \.txt"):
        paths(root, ".html")


@pytest.mark.parametrize(
    ("name", "cause"),
    [
        ("hf://datasets/org/absent", "no such data set, or you may not see it. .*HF_TOKEN"),
        ("hf://datasets/org/plain@v2/a.jsonl", "no such revision"),
        ("hf://datasets/org/plain/b.jsonl", "no such file"),
        ("hf://datasets/org/plain/*.csv", "no such file"),
        ("hf://datasets/org/plain", r"no Parquet files.*it has \.jsonl, \.md, \.txt"),
        ("hf://datasets/org/testonly", "files of the splits test, but none of a train split"),
        ("hf://datasets/org/configured", "several configurations: en, de"),
        ("hf://datasets/org/many", "several configurations: de, en"),
        ("hf://datasets/org/gated/a.jsonl", "it is gated. Accept its terms .*HF_TOKEN"),
        ("hf://datasets/org", "names no data set"),
        ("hf://org/model/file.txt", "names no data set"),
        ("hf://datasets/org/-bad-", "not the name of a data set"),
    ],
)
def test_a_refusal_is_one_message(name: str, cause: str) -> None:
    with pytest.raises(UserError, match=cause) as refused:
        list_hub_files(name)
    assert refused.value.value == f"--input {name}"
    assert "\n" not in str(refused.value)


def test_a_token_of_the_environment_opens_a_gated_data_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    [path] = list_hub_files("hf://datasets/org/gated/a.jsonl")
    with locate(path).open() as stream:
        assert stream.read(99) == b"secret"
    assert "hf_secret" not in path


def test_without_a_hub_the_message_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{free.getsockname()[1]}"
    direct(monkeypatch, address)
    monkeypatch.setattr("corpusmill.outages.Patience.first_seconds", 0.5)
    with pytest.raises(UserError, match=r"the hub cannot be read \(.*refused.*Check the network"):
        list_hub_files("hf://datasets/org/plain")


def test_a_file_is_read_from_any_position() -> None:
    content = PLAIN["texts/deep/c.txt"]
    [path] = list_hub_files("hf://datasets/org/plain/texts/deep/c.txt")
    assert is_hub_path(path)
    assert list_hub_files(path) == {path: len(content)}
    with locate(path).open() as stream:
        stream.seek(5_000_000)
        assert stream.read(6_000_000) == content[5_000_000:]
        stream.seek(1)
        assert (stream.read(5), stream.tell()) == (b"ccccc", 6)
    with locate(path).open() as stream:
        parts = iter(lambda: stream.read(2**20), b"")
        assert b"".join(parts) == content


def test_an_open_file_asks_for_blocks_and_not_for_each_read(hub: Hub) -> None:
    [path] = list_hub_files("hf://datasets/org/plain/texts/deep/c.txt")
    hub.requests.clear()
    with locate(path).open() as stream:
        for _ in range(100):
            stream.read(10_000)
    # One for the block, and one for the storage that it redirects to.
    assert len(hub.requests) == 2


@pytest.mark.parametrize(
    ("path", "split"),
    [
        ("train-00000-of-00001.parquet", "train"), ("data/train/0.parquet", "train"),
        ("training.parquet", "train"), ("my_train_x.parquet", "train"),
        ("dev.parquet", "validation"), ("valid/0.parquet", "validation"),
        ("eval-1.parquet", "test"), ("train/test.parquet", "test"),
        ("trains.parquet", None), ("0.parquet", None), ("data/x/00.parquet", None),
    ],
)  # fmt: skip
def test_names_tell_splits(path: str, split: str | None) -> None:
    assert split_of(path) == split

"""What tests of the transforms and of the job share: the bundled sample and a fixed tokenizer."""

import gc
import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

import numba
import pytest

from corpusmill.arrays.kernel_cache import kernel_folder
from corpusmill.tokenization.sources.read import read_tokenizer
from corpusmill.tokenization.tokenizer_file import TokenizerFile
from tests.tools.forked_commands import keep_compilation_quiet
from tests.tools.object_stores import ObjectStores, start_object_stores
from tests.tools.wikitext import find_wikitext

CHECKOUT = Path(__file__).resolve().parent.parent

# PyTorch's threads spin while they wait for each other, and take the cores from the other tests.
os.environ.setdefault("OMP_NUM_THREADS", "1")


# Folders, files, tests and cases that `make test` leaves to `make test-all`.
_SECOND_DOOR = {
    line
    for line in (CHECKOUT / "tests" / "second_door.txt").read_text().splitlines()
    if line and not line.startswith("#")
}


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let `make test` and `make test-all` run their parts of the tests."""
    parser.addoption("--door", choices=("first", "second"), help="default: all tests")


def _is_behind_second_door(name: str) -> bool:
    """Whether a test or a file, or what it is in, is listed."""
    return not _SECOND_DOOR.isdisjoint({name, *map(str, PurePosixPath(name).parents)})


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Import no file that has nothing for the door."""
    if not config.option.door or collection_path.suffix != ".py":
        return None
    name = collection_path.relative_to(CHECKOUT).as_posix()
    if _is_behind_second_door(name):
        return config.option.door == "first" or None
    has_some = any(listed.startswith(f"{name}::") for listed in _SECOND_DOOR)
    return (config.option.door == "second" and not has_some) or None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the tests of the other door."""
    if door := config.option.door:
        sides: dict[bool, list[pytest.Item]] = {True: [], False: []}
        for item in items:
            case = item.nodeid
            test, file = case.partition("[")[0], case.partition("::")[0]
            is_listed = not _SECOND_DOOR.isdisjoint({case, test}) or _is_behind_second_door(file)
            sides[is_listed == (door == "second")].append(item)
        items[:] = sides[True]
        config.hook.pytest_deselected(items=sides[False])


def pytest_collection() -> None:
    """Look for no garbage until the tests begin: what is imported and collected stays."""
    gc.disable()


def pytest_collection_finish() -> None:
    """Let the collector of garbage pass over what stays: what was imported, or outlives a pass."""
    gc.enable()
    gc.set_threshold(50_000, 20, 50)
    gc.callbacks.append(_freeze_survivors)
    gc.collect()


def _freeze_survivors(phase: str, information: dict[str, int]) -> None:
    if phase == "stop" and information["generation"] == 2:
        gc.freeze()


def read_local(path: str) -> bytes | None:
    """What `read_tokenizer` reads with."""
    file = Path(path)
    return file.read_bytes() if file.is_file() else None


@pytest.fixture(scope="session", autouse=True)
def compile_once() -> Iterator[None]:
    """Compile each kernel once, also for processes and tests with a cache folder of their own."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        # LLVM's first level takes two thirds of the time; a user's kernels lie in another folder.
        monkeypatch.setenv("NUMBA_OPT", "1")
        monkeypatch.setenv("NUMBA_CACHE_DIR", str(kernel_folder().parent / "corpusmill-tests"))
        numba.config.reload_config()
        kernel_folder.cache_clear()
        keep_compilation_quiet()
        yield


@pytest.fixture(scope="session")
def sample() -> Path:
    """51 KB of text in WikiText's layout: 105 documents."""
    return CHECKOUT / "samples" / "wiki.sample.tokens"


@pytest.fixture(scope="session")
def wikitext(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of WikiText-2, if it lies beside the checkout, or of text like it."""
    return find_wikitext(tmp_path_factory.mktemp("wikitext"))


@pytest.fixture(scope="session")
def tokenizer_path() -> Path:
    """A WordPiece tokenizer of 600 tokens, trained on the sample once and kept.

    Training breaks ties between pieces differently each time.
    """
    return CHECKOUT / "tests" / "data" / "tokenizer.json"


@pytest.fixture(scope="session")
def tokenizer(tokenizer_path: Path) -> TokenizerFile:
    return read_tokenizer(str(tokenizer_path), read_local)


@pytest.fixture(scope="session")
def object_stores() -> Iterator[ObjectStores]:
    """Google Cloud Storage and S3 on this machine."""
    with start_object_stores() as stores:
        yield stores

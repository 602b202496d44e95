from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
from tokenizers import Tokenizer

from corpusmill.objectives.examples.fill_in_the_middle import FIM_TOKENS
from pipeline.recipe import probe
from tests.tools.buckets import bucket
from tests.tools.growing import Growing, halve
from tests.tools.jobs import build
from tests.tools.remembered_beam import remembered_beam
from tests.tools.small_datasets import t5_tokenizer

__all__ = ["bucket", "long_text", "output", "remembered_beam"]

Builder = Callable[..., Path]


@pytest.fixture(autouse=True)
def short_probe(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compare less text with the tokenizer's library, which is a quarter of a small job."""
    monkeypatch.setattr(probe, "_FEWEST_BYTES", 2**12)


@pytest.fixture
def output(tmp_path: Path) -> Path:
    return tmp_path / "new" / "out"


@pytest.fixture(scope="session")
def gpt_tokenizer(tokenizer_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The fixed tokenizer with a token that ends texts."""
    tokenizer = Tokenizer.from_file(str(tokenizer_path))
    tokenizer.add_special_tokens(["<|endoftext|>"])
    path = tmp_path_factory.mktemp("gpt") / "tokenizer.json"
    tokenizer.save(str(path))
    return path


@pytest.fixture(scope="session")
def wordpiece(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A WordPiece tokenizer that suits every objective."""
    path = tmp_path_factory.mktemp("wordpiece") / "tokenizer.json"
    path.write_text(t5_tokenizer().json)
    return path


@pytest.fixture(scope="session")
def any_tokenizer(wordpiece: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """It, with the tokens by which the middles of texts are moved."""
    tokenizer = Tokenizer.from_file(str(wordpiece))
    tokenizer.add_special_tokens(sorted({names[0] for names in FIM_TOKENS.values()}))
    path = tmp_path_factory.mktemp("tokenizer") / "tokenizer.json"
    tokenizer.save(str(path))
    return path


@pytest.fixture(scope="session")
def build_once(tmp_path_factory: pytest.TempPathFactory) -> Builder:
    """Builds a data set once for the same text, tokenizer and flags; nothing may change it."""

    @cache
    def run(corpus: Path, tokenizer: Path, *flags: str | Path, objective: str = "bert") -> Path:
        output = tmp_path_factory.mktemp("built") / "out"
        outcome = build([corpus], tokenizer, output, *flags, objective=objective)
        assert "not remembered" not in outcome.output
        return output

    return run


@pytest.fixture(scope="session")
def built(sample: Path, tokenizer_path: Path, build_once: Builder) -> Path:
    """A data set of BERT, which nothing may change."""
    return build_once(sample, tokenizer_path)


@pytest.fixture(scope="session")
def halves(sample: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Two files with the halves of the sample's first articles, and a reject in each."""
    text = b"".join(sample.read_bytes().splitlines(keepends=True)[:180])
    return halve(text, tmp_path_factory.mktemp("halves"))


@pytest.fixture(scope="session")
def first(
    halves: tuple[Path, Path], wordpiece: Path, tmp_path_factory: pytest.TempPathFactory
) -> Growing:
    """A data set of the first half, which nothing may change."""
    growing = Growing(tmp_path_factory.mktemp("first") / "out", wordpiece)
    growing.build(halves[0])
    return growing


@pytest.fixture
def growing(first: Growing, tmp_path: Path) -> Growing:
    """A copy of the data set of the first half."""
    return first.copy_to(tmp_path / "out")


@pytest.fixture(scope="session")
def long_text(sample: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Text that keeps two processes busy for many seconds, in which a test stops them."""
    file = tmp_path_factory.mktemp("long") / "text"
    file.write_bytes(sample.read_bytes() * 400)
    return file

"""Windows of token streams, compared with the article's two data sets."""

import pickle
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from corpusmill.arrays.columns import Column, Role
from corpusmill.errors import UserError
from corpusmill.location import locate
from corpusmill.reading.collate.collators import collator_for
from corpusmill.reading.data_set import DataSet
from corpusmill.reading.load.batches import Batches
from corpusmill.reading.mixture import JoinedSamples
from corpusmill.reading.order.order import Order
from corpusmill.reading.order.schedule import FixedBatches, Position
from corpusmill.reading.rows import Values
from corpusmill.reading.token_windows import TOKENS, TokenWindows
from tests.corpusmill.objectives.reference_gpt import FileDataset, MemoryDataset
from tests.tools.batches_in_python import lists_of
from tests.tools.manifests import small_manifest, small_shard

END = -1

documents = st.lists(st.lists(st.integers(0, 99), max_size=15), max_size=6)
streams = st.lists(documents, min_size=1, max_size=4).filter(any)
lengths = st.integers(1, 20)


class InMemory(DataSet):
    """A data set whose shards are lists of documents, each followed by an end-of-text token."""

    def __init__(self, shards: list[list[list[int]]]) -> None:
        rows = [[[*document, END] for document in shard] for shard in shards]
        self.folder = locate("memory")
        self.columns = (Column("input_ids", "int16", "tokens", -1, role=Role.TOKEN_IDS),)
        self.manifest = small_manifest(columns=self.columns)
        self.shards = tuple(
            small_shard(f"shard {number}", tokens=sum(map(len, shard)))
            for number, shard in enumerate(rows)
        )
        self.digest = "of no use"
        self.cache: Any = Shards([lists_of(shard) for shard in rows])


class Shards:
    """What TokenWindows needs of a ShardCache."""

    def __init__(self, columns: list[Values]) -> None:
        self._columns = columns

    def is_unpacked(self, shard: int) -> bool:
        return 0 <= shard < len(self._columns)

    def columns(self, shard: int) -> dict[str, Values]:
        return {"input_ids": self._columns[shard]}


def windows_of(windows: TokenWindows) -> list[tuple[list[int], list[int]]]:
    """Return all windows by number, read in an order that alternates between shards."""
    samples = np.random.default_rng(3).permutation(len(windows))
    rows = windows.take(samples).lists(TOKENS).values.reshape(len(windows), -1)
    results = [([0], [0])] * len(windows)
    for sample, row in zip(samples.tolist(), rows.tolist(), strict=True):
        results[sample] = (row[:-1], row[1:])
    return results


@given(streams, lengths, st.none() | lengths)
def test_windows_of_one_stream_are_the_articles(
    shards: list[list[list[int]]], context_len: int, stride: int | None
) -> None:
    files = [document for shard in shards for document in shard]
    step = context_len if stride is None else stride
    references = [kind(files, END, context_len, step) for kind in (MemoryDataset, FileDataset)]
    number = references[0].__len__()  # `len` refuses negative numbers
    if number <= 0:
        with pytest.raises(UserError, match=r"has [\d,]+ tokens"):
            TokenWindows(InMemory(shards), context_len, stride)
        return
    windows = TokenWindows(InMemory(shards), context_len, stride)
    assert len(windows) == number == len(references[1])
    for reference in references:
        assert windows_of(windows) == [reference[example] for example in range(number)]
    tokens = [sum(len(document) + 1 for document in shard) for shard in shards]
    starts = np.cumsum([0, *tokens])
    begins = [np.searchsorted(starts, i * step, side="right") - 1 for i in range(number)]
    assert list(windows.shard_sizes) == np.bincount(begins, minlength=len(shards)).tolist()
    assert windows.lengths(np.arange(number)).tolist() == [context_len] * number


@given(streams, lengths, st.none() | lengths)
def test_windows_of_each_shard_are_the_articles(
    shards: list[list[list[int]]], context_len: int, stride: int | None
) -> None:
    step = context_len if stride is None else stride
    references = [MemoryDataset(shard, END, context_len, step) for shard in shards]
    sizes = [max(0, reference.__len__()) for reference in references]
    assume(sum(sizes))
    windows = TokenWindows(InMemory(shards), context_len, stride, across_shards=False)
    assert list(windows.shard_sizes) == sizes
    expected = [
        reference[example]
        for reference, size in zip(references, sizes, strict=True)
        for example in range(size)
    ]
    assert windows_of(windows) == expected


@pytest.mark.parametrize(
    ("context_len", "stride"), [(1, None), (32, 20), (32, None), (500, 7), (900, 901)]
)
def test_windows_of_a_data_set_are_the_articles(
    stored: tuple[DataSet, list[list[int]]], context_len: int, stride: int | None
) -> None:
    data_set, files = stored
    step = context_len if stride is None else stride
    reference = MemoryDataset(files, int(data_set[0]["input_ids"][-1]), context_len, step)
    windows = TokenWindows(data_set, context_len, stride)
    assert len(windows) == len(reference)
    for sample in {0, len(windows) // 2, len(windows) - 1}:
        window = windows[sample]
        results = window["input_ids"].tolist(), window["targets"].tolist()
        assert results == reference[sample]


@pytest.fixture(scope="module")
def stored(
    gpt_stream: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[DataSet, list[list[int]]]:
    """Return a data set of three shards, and its documents without end-of-text tokens."""
    data_set = DataSet(gpt_stream, cache_folder=tmp_path_factory.mktemp("cache"))
    return data_set, [data_set[row]["input_ids"][:-1].tolist() for row in range(len(data_set))]


@pytest.mark.parametrize("drop_last", [True, False])
@pytest.mark.parametrize("predicted", ["targets", "labels"])
def test_batches_in_order_are_those_of_the_articles_loader(
    stored: tuple[DataSet, list[list[int]]], drop_last: bool, predicted: Any
) -> None:
    """They equal what DataLoader(shuffle=False) reads from the article's data set."""
    data_set, files = stored
    reference = MemoryDataset(files, int(data_set[0]["input_ids"][-1]), 32, 20)
    windows = TokenWindows(data_set, 32, 20)
    order = Order(windows.shard_sizes, shuffle=False)
    collator = collator_for(windows, predicted=predicted)
    batches = Batches(windows, order, FixedBatches(16, drop_last), collator)
    results = [
        batch for block in batches.blocks(Position(0)) for batch, _ in batches.collate(block)
    ]
    assert len(reference) % 16
    assert len(results) == len(reference) // 16 + (not drop_last)
    for number, batch in enumerate(results):
        examples = range(number * 16, min(len(reference), number * 16 + 16))
        inputs, targets = zip(*(reference[example] for example in examples), strict=True)
        assert batch["input_ids"].tolist() == list(inputs)
        assert batch[predicted].tolist() == list(inputs if predicted == "labels" else targets)


def test_windows_can_be_sent_to_a_worker(stored: tuple[DataSet, list[list[int]]]) -> None:
    windows = TokenWindows(stored[0], 32, 20)
    sent = pickle.loads(pickle.dumps(windows))  # noqa: S301 - our own
    assert sent.digest == windows.digest
    assert windows_of(sent) == windows_of(windows)


def test_digests_distinguish_windows(stored: tuple[DataSet, list[list[int]]]) -> None:
    """So the state of one is not mistaken for that of another."""
    digests = {
        TokenWindows(stored[0], *arguments).digest
        for arguments in ((32,), (32, 16), (16,), (32, None, False))
    }
    assert len(digests | {stored[0].digest}) == 5
    assert TokenWindows(stored[0], 32).digest == TokenWindows(stored[0], 32, 32).digest
    [column] = TokenWindows(stored[0], 32).manifest.columns
    assert (column.name, column.width) == (TOKENS, 33)


def test_mixtures_take_windows_of_one_length(stored: tuple[DataSet, list[list[int]]]) -> None:
    windows = TokenWindows(stored[0], 32, 20)
    mixed = JoinedSamples([windows, TokenWindows(stored[0], 32, 7)])
    rows = mixed.take(np.array([0, len(windows)]))
    batch = collator_for(mixed, predicted="targets")(rows)
    assert batch["targets"].shape == (2, 32)
    with pytest.raises(UserError, match="31 tokens, not 32"):
        JoinedSamples([windows, TokenWindows(stored[0], 31)])


@pytest.mark.parametrize("across_shards", [True, False])
def test_numbers_out_of_range_are_refused(
    stored: tuple[DataSet, list[list[int]]], across_shards: bool
) -> None:
    windows = TokenWindows(stored[0], 32, across_shards=across_shards)
    for sample in (-1, len(windows)):
        with pytest.raises(IndexError, match=f"it has {len(windows)} examples"):
            windows.take(np.array([sample]))
    assert windows[-1]["input_ids"].tolist() == windows[len(windows) - 1]["input_ids"].tolist()


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ((0,), "context_len=0"),
        ((8, 0), "stride=0"),
        ((10**6,), "context_len=1000000"),
        ((10**6, 1, False), "context_len=1000000"),
    ],
)
def test_windows_that_cannot_be_cut_are_refused(
    stored: tuple[DataSet, list[list[int]]], arguments: tuple[int, ...], named: str
) -> None:
    with pytest.raises(UserError) as refusal:
        TokenWindows(stored[0], *arguments)  # type: ignore[arg-type]
    assert refusal.value.value == named


@pytest.mark.parametrize(("name", "cure"), [("bert", "Give one"), ("gpt_windows", "--mode stream")])
def test_data_that_is_not_a_stream_is_refused(
    request: pytest.FixtureRequest, name: str, cure: str
) -> None:
    with pytest.raises(UserError, match="not of a token stream") as refusal:
        TokenWindows(DataSet(request.getfixturevalue(name)), 8)
    assert cure in refusal.value.cure


def test_a_shard_with_other_tokens_than_the_manifest_says_is_refused() -> None:
    data_set = InMemory([[[1, 2, 3]], [[4, 5]]])
    first, second = data_set.shards
    data_set.shards = (first, msgspec.structs.replace(second, tokens=second.tokens + 4))
    with pytest.raises(UserError, match=r"it has 3 tokens, dataset\.json says 7"):
        TokenWindows(data_set, 5).take(np.array([0, 1]))

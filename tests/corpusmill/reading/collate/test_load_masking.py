"""Masks that are drawn when rows are loaded: they do not depend on who reads the rows."""

import random
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import ArrayLike

from corpusmill.arrays.randomness import LOADED_MASK, derive_key
from corpusmill.objectives.columns import word_column
from corpusmill.objectives.ernie import ErnieMasker
from corpusmill.objectives.masking.masked_lm import MaskedLm, Masker
from corpusmill.objectives.masking.tokens import MaskingRule
from corpusmill.reading.collate.collators import collator_for
from corpusmill.reading.collate.masked_lm_collator import (
    DynamicMasking,
    MaskedLmCollator,
)
from corpusmill.reading.data_set import DataSet
from corpusmill.reading.load.batches import Batches, Reader
from corpusmill.reading.mixture import JoinedSamples
from corpusmill.reading.order.order import Order
from corpusmill.reading.order.schedule import FixedBatches, Position
from corpusmill.reading.rows import Rows, derive_sample_keys
from tests.corpusmill.objectives import reference_ernie
from tests.tools.batches_in_python import lists_of
from tests.tools.builders import SPECIAL, seeds
from tests.tools.distributions import assert_counts, assert_same_distributions, assert_uniform
from tests.tools.manifests import INPUT_IDS
from tests.tools.table_rows import for_rows

EPOCHS = 6000
VOCAB_SIZE = 40
# [CLS] and two segments, words of one to three tokens.
SENTENCE = [2, 20, 21, 22, 23, 24, 3, 25, 26, 27, 28, 29, 30, 3]
WORDS = [-1, 0, 1, 0, 0, 1, -1, 0, 1, 1, 0, 0, 1, -1]

Masked = tuple[bytes, ...]


def masked_lm(whole_words: bool = False) -> MaskedLm:
    return MaskedLm(
        MaskingRule(0.3, 20, 3, 4), static=False, whole_words=whole_words, max_ngram=1,
        max_seq_length=64, special=SPECIAL, vocab_size=VOCAB_SIZE, token_dtype="int16",  # noqa: S106
    )  # fmt: skip


def masking_by(masker: Masker, seed: int = 0) -> DynamicMasking:
    return DynamicMasking((masker,), (INPUT_IDS, word_column(64)), seed)


def one_sentence(epochs: int) -> Rows:
    """Return the same sample in several epochs."""
    columns = {
        "input_ids": lists_of([SENTENCE] * epochs),
        "seg_labels": lists_of([WORDS] * epochs, "int8"),
    }
    return Rows(columns, np.full(epochs, 11), np.arange(epochs))


def described(rows: Rows) -> list[Masked]:
    """Return the masked tokens and predictions of each row."""
    names = ("input_ids", "masked_lm_positions", "masked_lm_ids")
    return [tuple(row[name].tobytes() for name in names) for row in rows]


@given(seeds, st.lists(st.tuples(st.integers(0, 2**40), st.integers(0, 2**20)), max_size=9))
def test_keys_come_from_seed_epoch_and_sample(seed: int, read: list[tuple[int, int]]) -> None:
    samples, epochs = (np.array([pair[part] for pair in read], np.int64) for part in (0, 1))
    expected = [derive_key(np.uint64(seed), *pair, LOADED_MASK) for pair in read]
    assert derive_sample_keys(np.uint64(seed), samples, epochs, LOADED_MASK).tolist() == expected


@for_rows("masker", [masked_lm(), masked_lm(whole_words=True), ErnieMasker(0.4, 4, VOCAB_SIZE)])
def test_rows_are_masked_by_the_kernel_that_builds_are(masker: Masker) -> None:
    rows = one_sentence(50)
    masked = masking_by(masker, 3)(rows[7:])
    expected = np.tile(np.array(SENTENCE, np.int16), 43)
    keys = derive_sample_keys(np.uint64(3), rows.samples[7:], rows.epochs[7:], LOADED_MASK)
    offsets = np.arange(44) * len(SENTENCE)
    words = np.tile(np.array(WORDS if masker != masked_lm() else [], np.int8), 43)
    positions, labels, ends = masker.mask(expected, words, offsets, keys)
    assert (masked.lists("input_ids").values == expected).all()
    assert (masked.lists("masked_lm_positions").values == positions).all()
    assert (masked.lists("masked_lm_ids").values == labels).all()
    assert (masked.lists("masked_lm_ids").offsets == ends).all()
    assert (rows.lists("input_ids").values == np.tile(SENTENCE, 50)).all(), "a copy is masked"


@pytest.mark.parametrize("name", ["bert_dynamic", "ernie", "electra"])
def test_masks_are_the_same_whoever_reads(
    request: pytest.FixtureRequest, cache_folder: Path, name: str
) -> None:
    """They are the same for any ranks, workers and batch size; epochs and seeds change them."""
    data_set = DataSet(request.getfixturevalue(name), cache_folder=cache_folder)
    order = Order(data_set.shard_sizes, seed=2, window=50)

    def read(seed: int, epoch: int, world: int, workers: int, size: int) -> dict[int, Masked]:
        batches = Batches(data_set, order, FixedBatches(size), collator_for(data_set, seed=seed))
        masks: dict[int, Masked] = {}
        for rank in range(world):
            for worker in range(workers):
                reader = Reader(rank, world, worker, workers)
                for block in batches.blocks(Position(epoch * len(data_set)), reader):
                    assert set(block.rows.epochs.tolist()) == {epoch}
                    described_rows = described(block.rows)
                    masks |= zip(block.rows.samples.tolist(), described_rows, strict=True)
        return masks

    first = read(1, 0, 1, 1, 32)
    assert len(first) == len(data_set)
    for others in ((2, 3, 5), (3, 1, 100), (1, 2, 1)):
        assert read(1, 0, *others) == first
    for other in (read(1, 1, 1, 1, 32), read(2, 0, 1, 1, 32)):
        assert other.keys() == first.keys()
        changed = sum(other[sample] != first[sample] for sample in first)
        assert changed > 0.9 * len(first)


@settings(max_examples=30, deadline=None)
@given(st.data(), seeds)
def test_a_rows_masks_depend_on_no_other_row(data: st.DataObject, seed: int) -> None:
    rows = one_sentence(20)
    begin = data.draw(st.integers(0, 19))
    end = data.draw(st.integers(begin, 20))
    for masker in (masked_lm(), ErnieMasker(0.5, 4, VOCAB_SIZE)):
        masking = masking_by(masker, seed)
        assert described(masking(rows[begin:end])) == described(masking(rows))[begin:end]


def properties(rows: Sequence[tuple[ArrayLike, ArrayLike]]) -> Mapping[str, np.ndarray]:
    """Return integers that encode which places are chosen, and what becomes of them."""
    chosen = np.zeros((len(rows), len(SENTENCE)), np.int64)
    for row, (_, places) in zip(chosen, rows, strict=True):
        row[np.asarray(places, np.int64)] = 1
    masked = np.array([ids for ids, _ in rows])
    kinds = np.where(masked == np.array(SENTENCE), 3, np.where(masked == 4, 1, 2)) * chosen
    features = {"predictions": chosen.sum(axis=1), "set of places": chosen @ 2 ** np.arange(14)}
    for place in range(len(SENTENCE) - 1):
        features[f"tokens {place} and the next"] = kinds[:, [place, place + 1]] @ np.array([1, 4])
    return features


def test_epochs_are_masked_as_ernie_masks() -> None:
    """The keys of epochs are as good as those of rows, whose masks the kernels' tests compare."""
    rng = random.Random(4)  # noqa: S311 - no secret
    expected = [
        reference_ernie.mask_sequence(SENTENCE, WORDS, 0.4, 4, VOCAB_SIZE, rng)
        for _ in range(EPOCHS)
    ]
    masked = masking_by(ErnieMasker(0.4, 4, VOCAB_SIZE))(one_sentence(EPOCHS))
    assert_same_distributions(
        properties([(row["input_ids"], row["masked_lm_positions"]) for row in masked]),
        properties([(row.masked_ids, row.positions) for row in expected]),
    )


def test_a_generator_learns_from_masks_alone(electra: Path, cache_folder: Path) -> None:
    """85 % become [MASK], 15 % stay; their number is a share of all tokens, special ones too."""
    data_set = DataSet(electra, cache_folder=cache_folder)
    masking = collator_for(data_set, seed=1).prepare
    longest = int(np.argmax(data_set.lengths(np.arange(len(data_set)))))
    stored = data_set[longest]["input_ids"]
    rows = data_set.take(np.full(EPOCHS, longest), np.arange(EPOCHS))
    masked = masking(rows)
    positions = masked.lists("masked_lm_positions")
    ids = np.stack([row["input_ids"] for row in masked])
    owners = np.repeat(np.arange(EPOCHS), positions.lengths)
    now = ids[owners, positions.values]
    assert_counts(np.array([(now == 4).sum(), (now != 4).sum()]), [0.85, 0.15], "[MASK]")
    assert (now[now != 4] == stored[positions.values][now != 4]).all()
    times = np.bincount(positions.values, minlength=len(stored))
    assert (times[np.isin(stored, [2, 3])] == 0).all()
    assert_uniform(times[~np.isin(stored, [2, 3])], "places")
    every = np.arange(len(data_set))
    numbers = masking(data_set.take(every)).lists("masked_lm_positions").lengths.tolist()
    tokens = data_set.lengths(every).tolist()
    assert numbers == [max(1, min(9, round(length * 0.15))) for length in tokens]


def test_each_data_set_of_a_mixture_has_its_word_probability(
    ernie: Path, cache_folder: Path
) -> None:
    data_set = DataSet(ernie, cache_folder=cache_folder)
    mixed = JoinedSamples([data_set, data_set])
    collator = collator_for(mixed, mask_word_prob=(0, 1))
    assert isinstance(collator, MaskedLmCollator)
    samples = np.arange(0, len(mixed), 3)
    masked = collator.prepare(mixed.take(samples))
    for words in (False, True):
        of_source = (samples >= len(data_set)) == words
        partly = parts_of_words(mixed.take(samples[of_source]), masked, np.flatnonzero(of_source))
        assert (partly == 0) == words
    assert collator_for(mixed) == collator_for(mixed, mask_word_prob=1.0)


def parts_of_words(rows: Rows, masked: Rows, places: np.ndarray) -> int:
    """Count the words that are predicted in part."""
    partly = 0
    for row, place in zip(rows, places.tolist(), strict=True):
        positions = set(masked[place]["masked_lm_positions"].tolist())
        for word in reference_ernie.words_of(row["seg_labels"].tolist()):
            partly += not (positions.isdisjoint(word) or positions.issuperset(word))
    return partly

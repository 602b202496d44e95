import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpusmill.arrays.randomness import (
    MASKING,
    MAX_SEED,
    PAIRS,
    PLACE,
    POOL,
    SHARD,
    SPLIT,
    count_bits,
    derive_all,
    derive_key,
    derive_keys,
    draw,
    draw_rows,
    mix,
    to_below,
    to_uniform,
)
from tests.tools.distributions import assert_uniform

PURPOSES = (PAIRS, MASKING, PLACE, SHARD, SPLIT, POOL)
uint64s = st.integers(0, 2**64 - 1)


def plain_split_mix(state: int) -> int:
    """One output of SplitMix64, as Steele, Lea and Flood print it."""
    mask = 2**64 - 1
    z = state & mask
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & mask
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
    return z ^ (z >> 31)


def draws(key: int, number: int) -> np.ndarray:
    return np.array([draw(np.uint64(key), i) for i in range(number)], np.uint64)


def test_draw_gives_the_published_numbers_of_split_mix_64() -> None:
    published = [
        6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431,
        16408922859458223821,
    ]  # fmt: skip
    assert draws(1234567, 5).tolist() == published


@given(uint64s, st.integers(0, 2**62))
def test_draw_is_split_mix_at_any_position(key: int, counter: int) -> None:
    state = key + (counter + 1) * 0x9E3779B97F4A7C15
    assert int(draw(np.uint64(key), counter)) == plain_split_mix(state)


@given(uint64s, uint64s)
def test_mix_keeps_different_numbers_different(one: int, other: int) -> None:
    assert (mix(np.uint64(one)) == mix(np.uint64(other))) == (one == other)


def test_every_seed_document_repeat_and_purpose_has_its_own_key() -> None:
    edges = [0, 1, 2, 3, 2**32, 2**63, 2**64 - 1]
    keys = [
        int(derive_key(np.uint64(seed), np.uint64(document), repeat, purpose))
        for seed in edges
        for document in edges
        for repeat in [0, 1, 2, 9, 65534]
        for purpose in PURPOSES
    ]
    assert len(set(keys)) == len(keys)


def test_one_changed_bit_of_any_part_changes_half_of_the_key() -> None:
    base = (12345, 678, 3, PAIRS)
    key = int(derive_key(*map(np.uint64, base)))
    for part in range(4):
        changed = []
        for bit in range(16):
            other = list(base)
            other[part] ^= 1 << bit
            changed.append((int(derive_key(*map(np.uint64, other))) ^ key).bit_count())
        assert 24 < np.mean(changed) < 40
        assert min(changed) > 10


@pytest.mark.parametrize("seed", [0, 1, MAX_SEED])
def test_derive_keys_is_derive_key_of_each(seed: int) -> None:
    documents = np.array([0, 5, 2**64 - 1], np.uint64)
    expected = [derive_key(np.uint64(seed), document, 2, POOL) for document in documents]
    assert derive_keys(np.uint64(seed), documents, 2, POOL).tolist() == expected


@pytest.mark.parametrize("number", [0, 1, 1024, 1025])
def test_keys_without_kernels_are_those_of_kernels(number: int) -> None:
    generator = np.random.default_rng(number)
    documents, repeats = generator.integers(0, 2**64, (2, number), np.uint64)
    keys = derive_all(MAX_SEED, documents, repeats, PLACE)
    rows = zip(documents, repeats, strict=True)
    assert keys.tolist() == [derive_key(np.uint64(MAX_SEED), *row, PLACE) for row in rows]
    drawn = draw_rows(MAX_SEED, documents, repeats, np.arange(number, dtype=np.uint32), PLACE)
    assert drawn.tolist() == [draw(key, counter) for counter, key in enumerate(keys)]
    same = derive_all(3, documents, np.array([9], np.uint64), POOL)
    assert derive_keys(3, documents, 9, POOL).tolist() == same.tolist()


def test_floats_reach_from_zero_to_just_below_one() -> None:
    assert to_uniform(np.uint64(0)) == 0
    assert to_uniform(np.uint64(2**64 - 1)) == 1 - 2.0**-53


@given(uint64s, st.integers(1, 2**31))
def test_integers_stay_below_their_bound(bits: int, bound: int) -> None:
    assert 0 <= to_below(np.uint64(bits), bound) < bound


@given(st.integers(1, 2**31))
def test_integers_reach_both_ends(bound: int) -> None:
    assert to_below(np.uint64(0), bound) == 0
    assert to_below(np.uint64(2**64 - 1), bound) == bound - 1


@given(uint64s)
def test_count_bits(bits: int) -> None:
    assert count_bits(np.uint64(bits)) == bits.bit_count()


def test_draws_of_one_key_are_uniform() -> None:
    values = [to_below(bits, 37) for bits in draws(0, 20_000)]
    assert_uniform(np.bincount(values, minlength=37), "consecutive draws")


@pytest.mark.parametrize("purpose", PURPOSES)
def test_first_draws_of_neighbouring_documents_are_uniform_and_do_not_follow_each_other(
    purpose: int,
) -> None:
    keys = derive_keys(1, np.arange(20_000, dtype=np.uint64), 0, purpose)
    values = np.array([to_below(np.uint64(draw(key, 0)), 8) for key in keys])
    assert_uniform(np.bincount(values, minlength=8), "first draws")
    assert_uniform(np.bincount(values[1:] * 8 + values[:-1], minlength=64), "pairs of first draws")


def test_every_bit_of_a_draw_is_set_half_of_the_time() -> None:
    bits = np.unpackbits(draws(7, 20_000).view(np.uint8)).reshape(-1, 64)
    for place, ones in enumerate(bits.sum(axis=0)):
        assert_uniform(np.array([ones, len(bits) - ones]), f"bit {place}")

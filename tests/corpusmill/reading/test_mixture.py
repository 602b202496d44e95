import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from corpusmill.errors import UserError
from corpusmill.reading.load.batches import Batches
from corpusmill.reading.load.length_batches import LengthBatches
from corpusmill.reading.mixture import JoinedSamples, mix
from corpusmill.reading.order.order import Order
from corpusmill.reading.order.schedule import FixedBatches, Position
from corpusmill.reading.order.stages import Stage
from corpusmill.reading.rows import Lists
from tests.tools.manifests import INPUT_IDS
from tests.tools.numbered_samples import AsTheyAre, NumberedSamples, read_epoch

SMALL = NumberedSamples((60, 40), digest="small")
LARGE = NumberedSamples((500, 300, 200), digest="large", seed=1)

OTHER_TOKENIZER = replace(SMALL.manifest.tokenizer, sha256="f" * 64)


def test_sources_alternate_at_random_and_each_in_its_own_order() -> None:
    _, order = mix([LARGE, LARGE], [1, 1], seed=5)
    sources, own = order.assign(np.arange(len(order)))
    changes = (np.diff(sources) != 0).mean()
    assert 0.45 < changes < 0.55  # 1 if they take turns
    assert not np.array_equal(own[sources == 0], np.arange(1000))
    _, plain = mix([LARGE, LARGE], [1, 1], shuffle=False)
    sources, own = plain.assign(np.arange(20))
    assert sources.tolist() == [0, 1] * 10
    assert own.tolist() == [place // 2 for place in range(20)]


def test_an_exhausted_source_begins_its_next_epoch() -> None:
    joined, order = mix([SMALL, LARGE], [1, 1], epoch_size="all_exhausted")
    assert order.stages == ((1000, 1000),)
    numbers = np.arange(len(order))
    samples, epochs = order.locate(numbers), order.epochs(numbers)
    small = samples < 100
    assert np.bincount(epochs[small]).tolist() == [100] * 10
    for epoch in range(10):
        assert set(samples[small & (epochs == epoch)]) == set(range(100))
    assert np.array_equal(np.sort(samples[~small]), np.arange(100, 1100))
    assert not epochs[~small].any()
    assert len(joined) == 1100


REFUSED: list[tuple[Any, Any, str]] = [
    ((1, 1000), 10, r"proportions=\(1, 1000\): source 0 has no sample in 10"),
    ((1, 1), 0, "epoch_size=0: epoch_size must be positive"),
    ((1, 1), 1e6, "epoch_size=1000000.0: it is not a number of samples. Give a whole number"),
    ((1, 1), "all", "epoch_size='all': it is not a number of samples"),
    ((1, 1), 2**63, f"epoch_size={2**63}: there are never so many samples"),
    ((1, 1), 2**50 + 1, "it would take 1,125,899,906,842,625 samples"),
    ((1e-300, 1), "all_exhausted", "to give each source its share. Give larger shares"),
    ([Stage([1, 1], 2**50 + 1)], None, f"or up to {2**50} samples"),
    (([Stage([1, 1], 10)]), "all_exhausted", "with stages, an epoch has a number"),
    ([Stage([1, 1], 10), 1], None, "some are stages, and others are not"),
]


def test_proportions_that_leave_a_source_out_are_refused() -> None:
    for proportions, epoch_size, message in REFUSED:
        with pytest.raises(UserError, match=message):
            mix([SMALL, LARGE], proportions, epoch_size=epoch_size)


def test_numbers_may_be_those_of_numpy() -> None:
    _, plain = mix([SMALL, LARGE], [0.5, 0.25], epoch_size=30)
    weights = np.array([0.5, 0.25], np.float32)
    _, order = mix([SMALL, LARGE], list(weights), epoch_size=np.int64(30))  # type: ignore[arg-type]
    assert order.describe() == plain.describe()


def test_the_largest_epoch_has_the_share_of_each_source() -> None:
    _, order = mix([SMALL, LARGE], [1, 3], epoch_size=2**50)
    numbers = np.arange(2**50 - 4096, 2**50)
    sources, places = order.assign(numbers)
    assert places[sources == 0].max() == 2**48 - 1
    assert places[sources == 1].max() == 3 * 2**48 - 1
    assert len(np.unique(np.stack([sources, places]), axis=1).T) == len(numbers)


def test_rows_are_those_of_the_sources_with_new_numbers() -> None:
    joined = JoinedSamples([SMALL, LARGE])
    samples = np.array([1099, 5, 100, 99, 5])
    rows = joined.take(samples, np.array([3, 1, 4, 1, 5]))
    assert rows.samples.tolist() == samples.tolist()
    assert rows.epochs.tolist() == [3, 1, 4, 1, 5]
    of_sources = [(LARGE, 999), (SMALL, 5), (LARGE, 0), (SMALL, 99), (SMALL, 5)]
    for row, (source, own) in zip(rows, of_sources, strict=True):
        expected = source.take(np.array([own]))[0]
        assert row["input_ids"].tolist() == expected["input_ids"].tolist()
        assert row["label"] == expected["label"]
    assert np.array_equal(joined.lengths(samples), rows.lists("input_ids").lengths)
    assert joined.longest == 12
    assert joined[1099]["input_ids"][0] == 999
    assert len(joined.take(np.empty(0, np.int64))) == 0


def test_columns_take_the_larger_of_two_types() -> None:
    class Narrow(NumberedSamples):
        def _read(self, samples: Any, epochs: Any) -> Any:
            values, offsets = super()._read(samples, epochs)["input_ids"]
            return {"input_ids": Lists(values.astype(np.int8), offsets)}

    rows = JoinedSamples([Narrow((5,)), LARGE]).take(np.array([2, 1000]))
    assert rows.lists("input_ids").values.dtype == np.int64
    assert rows[1]["input_ids"][0] == 995


def test_sources_that_cannot_be_read_as_one_are_refused() -> None:
    changes: list[tuple[dict[str, Any], str]] = [
        ({"tokenizer": OTHER_TOKENIZER}, "tokenizer is not that of the first"),
        ({"columns": (INPUT_IDS,)}, "has the columns input_ids; .*input_ids, label"),
    ]
    for changed, message in changes:
        other = NumberedSamples((5,), manifest=replace(SMALL.manifest, **changed))
        with pytest.raises(UserError, match=r"sources\[1\]: .*" + message):
            mix([SMALL, other], [1, 1])
    with pytest.raises(UserError, match="nothing to mix"):
        mix([], [])
    with pytest.raises(UserError, match=r"sources\[1\]: it has no samples"):
        mix([SMALL, NumberedSamples((0,))], [1, 1])


def batches(proportions: Any, sources: Any = (SMALL, LARGE), **options: Any) -> Batches:
    return Batches(*mix(sources, proportions, seed=2, **options), FixedBatches(4), AsTheyAre())


def saved(read: Batches, position: Position) -> dict[str, Any]:
    return dict(json.loads(json.dumps(read.state_dict(position))))


def test_a_state_belongs_to_its_sources_and_proportions() -> None:
    mixed = batches([1, 1])
    state = saved(mixed, Position(44))
    assert mixed.load_state_dict(state) == Position(44)
    with pytest.raises(UserError, match="its samples is"):
        batches([1, 1], [LARGE, SMALL]).load_state_dict(state)
    with pytest.raises(UserError, match="its order is"):
        batches([1, 2]).load_state_dict(state)


PLAN = [Stage([1, 1], 200), Stage([1, 3], 100), Stage([3, 1], 100)]


def test_stages_follow_one_another_and_the_last_weights_stay() -> None:
    joined, order = mix([SMALL, LARGE], PLAN, seed=2)
    assert len(order) == 400
    assert order.stages == ((100, 100), (25, 75), (75, 25))
    samples, epochs = (look_up(np.arange(800)) for look_up in (order.locate, order.epochs))
    small = samples < len(SMALL)
    read = [int(small[begin : begin + 100].sum()) for begin in range(200, 800, 100)]
    assert (int(small[:200].sum()), *read) == (100, 25, 75, 75, 75, 75, 75)
    # Its own epochs are whole: it continues from one stage to the next.
    for epoch in range(5):
        own = samples[small & (epochs == epoch)]
        assert sorted(own) == list(range(100))
    assert len(mix([SMALL, LARGE], PLAN, epoch_size=50)[1]) == 50
    assert len(joined) == 1100


@pytest.mark.parametrize(
    ("later", "number", "is_same"),
    [
        ([Stage([1, 1], 200), Stage([5, 1], 60)], 200, True),
        ([Stage([1, 1], 200), Stage([5, 1], 60)], 201, False),
        ([*PLAN, Stage([9, 1], 100)], 400, True),
        ([*PLAN, Stage([9, 1], 100)], 401, False),
        ([*PLAN, PLAN[-1], Stage([9, 1], 100)], 500, True),
        ([*PLAN[:2], Stage([1, 1], 100, ramp=True)], 300, True),
        ([*PLAN[:2], Stage([1, 1], 100, ramp=True)], 301, False),
        ([Stage([1, 1], 201), *PLAN[1:]], 0, False),
    ],
)
def test_stages_that_have_not_begun_may_be_changed(
    later: list[Stage], number: int, is_same: bool
) -> None:
    state, changed = saved(batches(PLAN), Position(number)), batches(later)
    if not is_same:
        with pytest.raises(UserError, match="its order is"):
            changed.load_state_dict(state)
        return
    position = changed.load_state_dict(state)
    assert position == Position(number)
    numbers = np.arange(number)
    assert np.array_equal(changed.order.locate(numbers), batches(PLAN).order.locate(numbers))


def test_a_mixture_in_constant_proportions_may_go_on_as_a_plan() -> None:
    constant, begun = batches([1, 1], epoch_size=100), [Stage([1, 1], 100)] * 3
    state = saved(constant, Position(260))
    changed = batches([*begun, Stage([1, 9], 50)])
    assert changed.load_state_dict(state) == Position(260)
    with pytest.raises(UserError, match="its order is"):
        batches([*begun[:2], Stage([1, 9], 50)]).load_state_dict(state)


def test_stages_cannot_be_changed_that_an_open_pool_has_reached() -> None:
    def by_length(plan: list[Stage]) -> Batches:
        joined, order = mix([SMALL, LARGE], plan, seed=2)
        batching = LengthBatches(joined, order, max_tokens=100, pool_size=150)
        return Batches(joined, order, batching, AsTheyAre())

    whole = by_length(PLAN)
    steps = read_epoch(whole, Position(0))
    within = next(step.position for step in steps if step.position.samples_read > 160)
    assert within.number < 200 < within.end
    with pytest.raises(UserError, match="its order is"):
        by_length([PLAN[0], Stage([9, 1], 100)]).load_state_dict(saved(whole, within))
    assert by_length([*PLAN[:2], Stage([9, 1], 100)]).load_state_dict(saved(whole, within))


def test_sources_have_names() -> None:
    parts = {"small": SMALL, "large": LARGE}
    named, order = mix(parts, {"large": 3, "small": 1}, seed=5)
    _, listed = mix([SMALL, LARGE], [1, 3], seed=5)
    assert order == listed
    assert named.sources == (SMALL, LARGE)
    _, staged = mix(
        parts, [Stage({"large": 1, "small": 0}, 50), Stage({"small": 1, "large": 0}, 9)]
    )
    assert staged.stages == ((0, 50), (9, 0))
    with pytest.raises(UserError, match="source small has no sample in 5"):
        mix(parts, {"small": 1, "large": 1000}, epoch_size=5)
    with pytest.raises(UserError, match="no source 'medium'; there are small, large"):
        mix(parts, {"small": 1, "large": 1, "medium": 1})
    with pytest.raises(UserError, match="only a data set knows the names of its sources"):
        mix(LARGE, {"small": 1})


def test_a_source_is_read_before_another() -> None:
    """What is easy, built as a source of its own, has the first stage to itself."""
    joined, order = mix(
        {"easy": SMALL, "hard": LARGE},
        [Stage({"easy": 1, "hard": 0}, epochs=1), Stage({"easy": 0, "hard": 1}, epochs=1)],
        seed=5,
    )
    read = order.locate(np.arange(len(order)))
    assert len(read) == len(joined)
    assert (set(read[:100]), set(read[100:])) == (set(range(100)), set(range(100, 1100)))
    assert not np.array_equal(read[:100], np.arange(100))  # shuffled within the stage


def test_one_source_is_read_in_its_own_order_within_stretches() -> None:
    _, order = mix([LARGE], [1], shuffle=False)
    assert np.array_equal(order.locate(np.arange(2000)), np.arange(2000) % 1000)
    _, shuffled = mix([LARGE], [1], seed=3)
    whole = Order(LARGE.shard_sizes, 3).locate(np.arange(1000))
    assert set(shuffled.locate(np.arange(1000))) == set(whole)

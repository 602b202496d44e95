"""Shares of masks that a call or a stage of a training gives, in place of those of a build."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from torch.utils.data import DataLoader

from corpusmill.errors import UserError
from corpusmill.objectives.bert import BertOptions
from corpusmill.objectives.ernie import ErnieOptions
from corpusmill.reading.collate.collators import collator_for
from corpusmill.reading.data_set import DataSet
from corpusmill.reading.load.batches import Batches
from corpusmill.reading.load.loader import Loader, make_batches
from corpusmill.reading.mixture import mix
from corpusmill.reading.order.stages import Stage
from corpusmill.reading.rows import Rows
from corpusmill.reading.torch.dataset import EpochBatchSampler, MapDataset, TensorLoader
from corpusmill.reading.torch.streaming import StreamingDataset
from tests.tools.distributions import assert_counts
from tests.tools.small_datasets import Recipe, write_dataset

EPOCHS = 300
MASK_ID = 4
_DYNAMIC: dict[str, Any] = {
    "max_seq_length": 64, "duplicates": 1, "max_predictions_per_seq": None, "mask": "dynamic",
    "masked_lm_prob": 0.3,
}  # fmt: skip
BUILDS = {
    "single tokens": BertOptions("full-sentences", **_DYNAMIC),
    "whole words": BertOptions("full-sentences", whole_word_mask=True, ngram=3, **_DYNAMIC),
    "packed": BertOptions("packed", **_DYNAMIC),
    "each by itself": BertOptions("packed", draw_each_token=True, **_DYNAMIC),
}
# mmBERT's: 30 %, 15 % and 5 % of the tokens, and other weights of the languages in each.
STAGES = [
    Stage({"wide": 3, "narrow": 1}, 40, masked_lm_prob=0.3),
    Stage({"wide": 2, "narrow": 1}, 30, masked_lm_prob=0.15),
    Stage({"wide": 1, "narrow": 1}, 20, masked_lm_prob=0.05),
]


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> DataSet:
    return build(tmp_path_factory.mktemp("packed"), BUILDS["each by itself"])


def build(folder: Path, options: Any) -> DataSet:
    write_dataset(folder / "out", Recipe(options))
    return DataSet(folder / "out", cache_folder=folder / "cache")


def prepared(data_set: DataSet, rows: Rows | None = None, **options: Any) -> list[dict[str, Any]]:
    rows = rows or data_set.take(np.arange(len(data_set)))
    return [*collator_for(data_set, seed=3, **options).prepare(rows)]


def assert_same_rows(some: list[dict[str, Any]], others: list[dict[str, Any]]) -> None:
    assert len(some) == len(others)
    for one, other in zip(some, others, strict=True):
        assert one.keys() == other.keys()
        for name, value in one.items():
            assert np.array_equal(value, other[name])


@pytest.mark.parametrize("options", BUILDS.values(), ids=BUILDS)
def test_a_share_of_the_call_masks_as_one_of_the_build_does(
    tmp_path: Path, options: BertOptions
) -> None:
    """Whole words, n-grams, and the draw of each token stay as they are."""
    built = build(tmp_path / "built", options)
    other = build(tmp_path / "other", replace(options, masked_lm_prob=0.05))
    read = prepared(built, masked_lm_prob=0.05)
    assert_same_rows(read, prepared(other))
    predictions = [
        sum(len(row["masked_lm_ids"]) for row in rows) for rows in (read, prepared(built))
    ]
    assert predictions[0] < 0.3 * predictions[1]


@pytest.mark.parametrize("name", ["bert_packed", "ernie", "electra"])
def test_what_becomes_of_predicted_tokens_can_be_given(
    request: pytest.FixtureRequest, cache_folder: Path, name: str
) -> None:
    data_set = DataSet(request.getfixturevalue(name), cache_folder=cache_folder)
    longest = int(np.argmax(data_set.lengths(np.arange(len(data_set)))))
    rows = data_set.take(np.full(EPOCHS, longest), np.arange(EPOCHS))
    stored = rows[0]["input_ids"]
    read = prepared(data_set, rows, mask_replace_prob=0.5, random_replace_prob=0.0)
    counts = np.zeros(2, np.int64)
    for row in read:
        now, before = (ids[row["masked_lm_positions"]] for ids in (row["input_ids"], stored))
        assert (row["masked_lm_ids"] == before).all()
        assert ((now == MASK_ID) | (now == before)).all(), "no random token"
        counts += np.count_nonzero(now == MASK_ID), np.count_nonzero(now != MASK_ID)
    assert_counts(counts, [0.5, 0.5], "[MASK], unchanged")


def test_ernie_chooses_the_share_that_is_given(ernie: Path, cache_folder: Path) -> None:
    data_set = DataSet(ernie, cache_folder=cache_folder)
    rows = data_set.take(np.full(EPOCHS, 5), np.arange(EPOCHS))
    maskable = np.count_nonzero(rows[0]["seg_labels"] != -1)
    read = prepared(data_set, rows, masked_lm_prob=0.4, mask_word_prob=0.0)
    chosen = sum(len(row["masked_lm_ids"]) for row in read)
    assert_counts(np.array([chosen, EPOCHS * maskable - chosen]), [0.4, 0.6], "chosen")


def test_a_generator_predicts_the_share_that_is_given(electra: Path, cache_folder: Path) -> None:
    """ELECTRA-Large's 25 %: the most predictions follow from the share, as in its program."""
    data_set = DataSet(electra, cache_folder=cache_folder)
    read = prepared(data_set, masked_lm_prob=0.25)
    lengths = data_set.lengths(np.arange(len(data_set))).tolist()
    expected = [max(1, min(int(0.255 * 64), round(0.25 * length))) for length in lengths]
    assert [len(row["masked_lm_ids"]) for row in read] == expected


def staged(
    packed: DataSet, stages: list[Stage] | None = None, size: int = 7, **options: Any
) -> Batches:
    sources = {"wide": packed, "narrow": packed.first_generations(1)}
    samples, order = mix(sources, stages or STAGES, seed=2)
    return make_batches(samples, size, order=order, seed=3, **options)


def arrays_of(batches: Iterable[Any]) -> list[bytes]:
    """Return the labels and tokens of each row, in the order in which rows are read."""
    found = []
    for batch in batches:
        pairs = zip(np.asarray(batch["input_ids"]), np.asarray(batch["labels"]), strict=True)
        found += [ids.tobytes() + labels.tobytes() for ids, labels in pairs]
    return found


WIDE: dict[str, Any] = {"padding": "max_length"}


def test_stages_have_the_masks_that_their_share_alone_would_give(packed: DataSet) -> None:
    """The masks of a row are those of (seed, epoch, number), with the share of its stage."""
    plain = [replace(stage, masked_lm_prob=None) for stage in STAGES]
    read = arrays_of(Loader(staged(packed, **WIDE)))
    assert len(read) == 90
    begin = 0
    for stage in STAGES:
        alone = staged(packed, plain, masked_lm_prob=stage.masked_lm_prob, **WIDE)
        end = begin + (stage.samples or 0)
        assert read[begin:end] == arrays_of(Loader(alone))[begin:end]
        begin = end
    # A share of the call holds where the stage gives none.
    mixed = [plain[0], *STAGES[1:]]
    assert arrays_of(Loader(staged(packed, mixed, masked_lm_prob=0.3, **WIDE))) == read
    assert arrays_of(Loader(staged(packed, masked_lm_prob=0.9, **WIDE))) == read


def test_stages_predict_their_shares(packed: DataSet) -> None:
    """Over rows that differ in length, 30 %, 15 % and 5 % of all tokens, [CLS] and [SEP] too."""
    stages = [replace(stage, samples=300) for stage in STAGES]
    batches = staged(packed, stages, 300)
    for stage, batch in zip(STAGES, Loader(batches), strict=True):
        predicted = np.count_nonzero(batch["labels"] != -100)
        tokens = np.count_nonzero(batch["input_ids"])
        share = stage.masked_lm_prob or 0
        assert_counts(np.array([predicted, tokens - predicted]), [share, 1 - share], "predicted")


def by_map(batches: Batches, workers: int = 0) -> Iterator[Any]:
    dataset = MapDataset(batches.samples, batches.collator)
    sampler = EpochBatchSampler(batches, 0, 1)
    yield from DataLoader(
        dataset, batch_sampler=sampler, collate_fn=dataset.collate, num_workers=workers
    )


@pytest.mark.parametrize(
    "read",
    [
        lambda batches: iter(TensorLoader(batches, 0, 1)),
        lambda batches: iter(StreamingDataset(batches, 0, 1)),
        by_map,
        lambda batches: by_map(batches, 2),
    ],
    ids=["TensorLoader", "StreamingDataset", "MapDataset", "its workers"],
)
def test_all_readers_follow_the_stages(
    packed: DataSet, read: Callable[[Batches], Iterator[Any]]
) -> None:
    batches = staged(packed, **WIDE)
    assert arrays_of(read(batches)) == arrays_of(Loader(batches))


@pytest.mark.parametrize("batches_read", [1, 6, 10])
def test_a_training_resumes_within_a_stage_with_the_same_masks(
    packed: DataSet, batches_read: int
) -> None:
    whole = arrays_of(Loader(staged(packed, **WIDE)))
    loader = Loader(staged(packed, **WIDE))
    iterator = iter(loader)
    for _ in range(batches_read):
        next(iterator)
    state = loader.state_dict()
    resumed = Loader(staged(packed, size=4, **WIDE))
    resumed.load_state_dict(state)
    assert arrays_of(resumed) == whole[7 * batches_read :]


def test_shares_of_stages_that_have_not_begun_may_be_changed(packed: DataSet) -> None:
    loader = Loader(staged(packed, size=20))
    for _ in zip(range(3), loader, strict=False):  # 60 samples: two stages have begun
        state = loader.state_dict()
    later, earlier = list(STAGES), list(STAGES)
    later[2] = replace(later[2], masked_lm_prob=0.1)
    Loader(staged(packed, later)).load_state_dict(state)
    earlier[1] = replace(earlier[1], masked_lm_prob=0.2)
    with pytest.raises(UserError, match=r"its order is .*0.15.*here it is .*0.2"):
        Loader(staged(packed, earlier)).load_state_dict(state)
    plain = [replace(stage, masked_lm_prob=None) for stage in STAGES]
    assert "masks" not in Loader(staged(packed, plain)).state_dict()["order"]
    with pytest.raises(UserError, match="its order is"):
        Loader(staged(packed, plain)).load_state_dict(state)


def test_a_ramp_of_weights_and_what_comes_after_the_last_stage_keep_their_share(
    packed: DataSet,
) -> None:
    stages = [STAGES[0], replace(STAGES[2], samples=80, ramp=True)]
    order = staged(packed, stages).order
    shares = order.mask_shares(np.array([0, 39, 40, 119, 120, 10**6]))  # type: ignore[attr-defined]
    assert shares[:, 0].tolist() == [0.3, 0.3, 0.05, 0.05, 0.05, 0.05]
    assert (shares[:, 1:] == -1).all(), "those of the build"


@pytest.mark.parametrize(
    ("options", "given", "message"),
    [
        (BUILDS["packed"], {"masked_lm_prob": 0.0}, "masked_lm_prob=0.0.*Give 0 to 1, but not 0"),
        (BUILDS["packed"], {"masked_lm_prob": 1.5}, "masked_lm_prob=1.5.*Give 0 to 1, but not 0"),
        (BUILDS["packed"], {"masked_lm_prob": float("nan")}, "masked_lm_prob=nan"),
        (BUILDS["packed"], {"mask_replace_prob": 0.95, "random_replace_prob": 0.1}, "sum is at"),
        (BUILDS["packed"], {"mask_replace_prob": -0.1, "random_replace_prob": 0.1}, "0 and more"),
        (
            replace(BUILDS["packed"], max_predictions_per_seq=12, masked_lm_prob=0.15),
            {"masked_lm_prob": 0.21},
            "0.21: of 64 tokens 13 would be.*--max-predictions-per-seq 12. Give at most 0.1875,",
        ),
        (BertOptions(max_seq_length=64), {"masked_lm_prob": 0.1}, "no masks are drawn"),
        (ErnieOptions(max_seq_length=64), {"masked_lm_prob": 2}, "masked_lm_prob=2"),
    ],
)  # fmt: skip
def test_shares_that_the_build_does_not_allow_are_refused(
    tmp_path: Path, options: Any, given: dict[str, float], message: str
) -> None:
    data_set = build(tmp_path, options)
    with pytest.raises(UserError, match=message):
        make_batches(data_set, 4, **given)  # type: ignore[arg-type]
    with pytest.raises(UserError, match=message):
        mix([data_set], [Stage([1], 10, **given)])  # type: ignore[arg-type]


def test_a_share_that_fits_the_most_predictions_is_taken(tmp_path: Path) -> None:
    limited = replace(BUILDS["packed"], max_predictions_per_seq=12, masked_lm_prob=0.15)
    data_set = build(tmp_path, limited)
    read = prepared(data_set, masked_lm_prob=12 / 62)
    longest = max(len(row["masked_lm_ids"]) for row in read)
    assert 9 < longest <= 12
    # The build's own share is taken even where its rows have fewer predictions.
    short = build(tmp_path / "short", replace(limited, max_predictions_per_seq=3))
    assert max(len(row["masked_lm_ids"]) for row in prepared(short, masked_lm_prob=0.15)) == 3


def test_other_mistakes_with_shares_are_refused(packed: DataSet, gpt_pack: Path) -> None:
    with pytest.raises(UserError, match=r"gives only one of the two. Give both"):
        Stage([1], 10, mask_replace_prob=0.9)
    with pytest.raises(UserError, match=r"there are 1 data sets"):
        make_batches(packed, 4, masked_lm_prob=[0.1, 0.2])
    with pytest.raises(UserError, match=r"masked_lm_prob=0.1: no masks are drawn"):
        make_batches(packed, 4, mask=False, masked_lm_prob=0.1)
    with pytest.raises(UserError, match=r"masked_lm_prob=0.1: no masks are drawn"):
        make_batches(DataSet(gpt_pack), 4, masked_lm_prob=0.1)
    with pytest.raises(UserError, match=r"masked_lm_prob=0.1: no masks are drawn"):
        mix([DataSet(gpt_pack)], [Stage([1], 10, masked_lm_prob=0.1)])

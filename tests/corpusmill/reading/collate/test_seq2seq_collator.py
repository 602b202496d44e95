"""Batches for encoder-decoders: inputs and targets that are stored, or made at load time."""

from pathlib import Path

import numpy as np

from corpusmill.arrays.randomness import LOADED_MASK
from corpusmill.objectives.denoising import Denoiser, SpanCorrupter
from corpusmill.reading.collate.collators import Padding, collator_for
from corpusmill.reading.collate.seq2seq_collator import Corruption, Seq2SeqCollator
from corpusmill.reading.data_set import DataSet, Samples
from corpusmill.reading.mixture import JoinedSamples
from corpusmill.reading.rows import Batch, Rows, Values, derive_sample_keys
from tests.corpusmill.objectives.reference_t5 import restore
from tests.tools.batches_in_python import lists_of
from tests.tools.small_datasets import OBJECTIVES, Recipe, t5_tokenizer, write_dataset

END = 1
SENTINELS = (99, 98, 97)


def collated(samples: Samples, rows: Rows, **options: object) -> Batch:
    collate = collator_for(samples, **options)  # type: ignore[arg-type]
    return collate(collate.prepare(rows))


def texts_of(batch: Batch, sentinels: tuple[int, ...]) -> list[list[int]]:
    """Return the text of each row of a batch."""
    masks = batch["attention_mask"].astype(np.bool_)
    inputs = [ids[mask].tolist() for ids, mask in zip(batch["input_ids"], masks, strict=True)]
    targets = [row[row != -100].tolist() for row in batch["labels"]]
    return [restore(*row, sentinels) for row in zip(inputs, targets, strict=True)]


def sentinels_of(samples: Samples) -> tuple[int, ...]:
    return tuple(samples.manifest.objective.facts["sentinel_ids"])


def test_inputs_and_targets_are_padded() -> None:
    """The example of the docstring."""
    columns = {
        "input_ids": lists_of([[5, 99, 1], [6, 7, 99, 1]]),
        "labels": lists_of([[99, 8, 1], [99, 1]]),
    }
    batch = Seq2SeqCollator(Padding(), Padding())(Rows(columns, np.arange(2), np.zeros(2, int)))
    assert {name: array.tolist() for name, array in batch.items()} == {
        "input_ids": [[5, 99, 1, 0], [6, 7, 99, 1]],
        "attention_mask": [[1, 1, 1, 0], [1, 1, 1, 1]],
        "labels": [[99, 8, 1], [99, 1, -100]],
    }
    assert {array.dtype.name for array in batch.values()} == {"int64"}


def test_stored_rows_are_collated_as_they_are(t5: Path, cache_folder: Path) -> None:
    data_set = DataSet(t5, cache_folder=cache_folder)
    assert sentinels_of(data_set)[0] == 601
    rows = data_set.take(np.arange(len(data_set)))
    batch = collated(data_set, rows)
    for place, row in enumerate(rows):
        for name, fill in (("input_ids", 0), ("labels", -100)):
            stored = row[name].tolist()
            shown = batch[name][place].tolist()
            assert shown == stored + [fill] * (len(shown) - len(stored))
    assert batch["input_ids"].shape[1] == 64
    assert batch["labels"].shape[1] == 14


def test_text_is_corrupted_anew_in_each_epoch(t5_dynamic: Path, cache_folder: Path) -> None:
    """By the kernel of builds, whatever else is read with a row."""
    data_set = DataSet(t5_dynamic, cache_folder=cache_folder)
    sentinels, samples = sentinels_of(data_set), np.arange(20)
    first = data_set.take(samples)
    stored = [row["input_ids"].tolist() for row in first]
    later = data_set.take(samples, np.ones(20, np.int64))
    batches = [collated(data_set, rows, seed=3) for rows in (first, later)]
    assert [texts_of(batch, sentinels) for batch in batches] == [stored, stored]
    assert not np.array_equal(batches[0]["input_ids"], batches[1]["input_ids"])
    assert not np.array_equal(collated(data_set, first)["input_ids"], batches[0]["input_ids"])
    alone = collated(data_set, later[7:9], seed=3)
    assert alone["labels"].tolist() == batches[1]["labels"][7:9].tolist()
    options = OBJECTIVES["t5_dynamic"]
    corrupter = options.corrupter(t5_tokenizer().with_roles(options.special_tokens))
    assert corrupter is not None
    ids = first.lists("input_ids")
    bounds = np.column_stack([ids.offsets[:-1], ids.offsets[1:]])
    keys = derive_sample_keys(np.uint64(3), samples, np.zeros(20, np.int64), LOADED_MASK)
    made = corrupter.corrupt(ids.values, bounds, np.zeros(20, np.int64), keys)
    assert made.target_ids.tolist() == [
        token for row in batches[0]["labels"].tolist() for token in row if token != -100
    ]


def test_a_row_keeps_its_denoiser(ul2_dynamic: Path, cache_folder: Path) -> None:
    """Of which the token of its mode tells; other spans are left out in each epoch."""
    data_set = DataSet(ul2_dynamic, cache_folder=cache_folder)
    modes = data_set.manifest.objective.facts["mode_ids"]
    names = data_set.manifest.columns[1].value_names
    samples = np.arange(40)
    for epoch in range(2):
        rows = data_set.take(samples, np.full(40, epoch))
        batch = collated(data_set, rows)
        begins = [modes[f"mode_{names[kind][0].lower()}"] for kind in rows.columns["denoiser"]]
        assert batch["input_ids"][:, 0].tolist() == begins
        assert batch["input_ids"].shape[1] <= 64 >= batch["labels"].shape[1]
        batch["input_ids"] = batch["input_ids"][:, 1:]
        batch["attention_mask"] = batch["attention_mask"][:, 1:]
        stored = [row["input_ids"].tolist() for row in rows]
        assert texts_of(batch, sentinels_of(data_set)) == stored


def test_data_sets_of_a_mixture_are_corrupted_in_their_ways() -> None:
    """A row's class says how, too."""
    corrupters = tuple(
        SpanCorrupter((Denoiser(0.5, span), Denoiser(0.2, 1.0)), (9, 9), SENTINELS, END)
        for span in (1.0, 5.0)
    )
    texts = [[10, 11, 12, 13, 14, 15]] * 4
    columns: dict[str, Values] = {"ids": lists_of(texts), "kind": np.array([0, 0, 1, 1])}
    rows = Rows(columns, np.array([7, 2, 1, 9]), np.zeros(4, np.int64))
    made = Corruption(corrupters, "ids", "kind", 0, (0, 5))(rows)
    inputs, targets = ([row[name].tolist() for row in made] for name in ("ids", "labels"))
    assert [len(row) for row in targets] == [5, 7, 3, 3]
    restored = [restore(*row, SENTINELS) for row in zip(inputs, targets, strict=True)]
    assert restored == texts
    assert made.columns["kind"] is columns["kind"]
    assert rows.columns["ids"] is columns["ids"]


def test_mixtures_are_read(t5_dynamic: Path, t5: Path, cache_folder: Path, tmp_path: Path) -> None:
    other = tmp_path / "out"
    write_dataset(other, Recipe(OBJECTIVES["t5_dynamic"], shards=1))
    sources = [DataSet(path, cache_folder=cache_folder) for path in (t5_dynamic, other)]
    joined = JoinedSamples(sources)
    samples = np.array([0, len(sources[0]), 1, len(joined) - 1])
    rows = joined.take(samples)
    batch = collated(joined, rows, padding="max_length")
    assert texts_of(batch, sentinels_of(joined)) == [row["input_ids"].tolist() for row in rows]
    assert batch["input_ids"].shape == (4, 64)
    static = JoinedSamples([DataSet(t5, cache_folder=cache_folder)] * 2)
    assert collated(static, static.take(samples), padding="max_length")["labels"].shape == (4, 14)

"""Batches of masked rows, and the choice of the collator for a data set."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from corpusmill.errors import UserError
from corpusmill.objectives.bert import BertOptions
from corpusmill.objectives.columns import NEXT_SENTENCE_LABEL, prediction_columns, segment_column
from corpusmill.objectives.masking.tokens import MaskingRule
from corpusmill.reading.collate.causal_collators import (
    WindowCollator,
)
from corpusmill.reading.collate.collators import Padding, collator_for
from corpusmill.reading.collate.masked_lm_collator import MaskedLmCollator
from corpusmill.reading.data_set import DataSet
from corpusmill.reading.token_windows import TokenWindows
from tests.tools.batches_in_python import lists_in, masked_batch, rows_of
from tests.tools.manifests import INPUT_IDS
from tests.tools.small_datasets import Recipe, write_dataset

ROWS = rows_of(
    input_ids=[[2, 4, 3], [2, 3]],
    token_type_ids=[[0, 0, 1], [0, 1]],
    masked_lm_positions=[[1], []],
    masked_lm_ids=[[7], []],
    next_sentence_label=[1, 0],
)
COLUMNS = (
    INPUT_IDS,
    segment_column(3),
    *prediction_columns("int16", 1, 3),
    NEXT_SENTENCE_LABEL,
)


def test_a_batch_has_what_models_take() -> None:
    batch = MaskedLmCollator(Padding(pad_to_multiple_of=4), COLUMNS)(ROWS)
    assert lists_in(batch) == {
        "input_ids": [[2, 4, 3, 0], [2, 3, 0, 0]],
        "attention_mask": [[1, 1, 1, 0], [1, 1, 0, 0]],
        "token_type_ids": [[0, 0, 1, 0], [0, 1, 0, 0]],
        "labels": [[-100, 7, -100, -100], [-100] * 4],
        "next_sentence_label": [1, 0],
    }
    for array in batch.values():
        assert array.dtype == np.int64
        assert array.flags.c_contiguous


def test_the_batches_of_a_block_are_its_rows() -> None:
    """Rows that are cut from others begin in the middle of their values."""
    batch = MaskedLmCollator(Padding(9, "max_length", None, 3), COLUMNS)(ROWS[1:2])
    assert lists_in(batch) == {
        "input_ids": [[2, 3, 9]],
        "attention_mask": [[1, 1, 0]],
        "token_type_ids": [[0, 1, 0]],
        "labels": [[-100] * 3],
        "next_sentence_label": [0],
    }


@pytest.mark.parametrize("width", [None, 64])
def test_batches_of_a_data_set_are_its_examples_padded(
    bert: Path, cache_folder: Path, width: int | None
) -> None:
    data_set = DataSet(bert, cache_folder=cache_folder)
    collate = collator_for(data_set, padding="longest" if width is None else "max_length")
    samples = np.random.default_rng(1).permutation(len(data_set))[:40]
    batch = collate(collate.prepare(data_set.take(samples)))
    examples = [data_set[int(sample)] for sample in samples]
    longest = max(len(example["input_ids"]) for example in examples)
    assert lists_in(batch) == masked_batch(examples, width or longest, 0)


def test_labels_are_the_text_that_was_masked(
    bert_dynamic: Path, ernie: Path, electra: Path, cache_folder: Path
) -> None:
    for folder in (bert_dynamic, ernie, electra):
        data_set = DataSet(folder, cache_folder=cache_folder)
        rows = data_set.take(np.arange(50))
        masked, plain = collator_for(data_set), collator_for(data_set, mask=False)
        batch, text = masked(masked.prepare(rows)), plain(plain.prepare(rows))
        predicted = batch["labels"] != -100
        assert 0.1 < predicted.sum() / batch["attention_mask"].sum() < 0.2
        assert (batch["labels"][predicted] == text["input_ids"][predicted]).all()
        assert (batch["input_ids"][~predicted] == text["input_ids"][~predicted]).all()
        assert (batch["input_ids"] != text["input_ids"]).any()
        assert "labels" not in text
        assert "seg_labels" not in batch


def test_maskers_have_the_rules_of_the_build_and_of_the_call(
    bert_dynamic: Path, ernie: Path, electra: Path
) -> None:
    def masker(folder: Path, **options: Any) -> Any:
        collate: Any = collator_for(DataSet(folder), **options)
        [masker] = collate.masking.maskers
        return masker

    assert masker(bert_dynamic).whole_words
    assert masker(bert_dynamic).rule.max_predictions == 20
    by_words, generator = masker(ernie), masker(electra)
    assert masker(ernie, mask_word_prob=0.25) == replace(by_words, mask_word_prob=0.25)
    assert generator.rule == MaskingRule(0.15, 9, 0, 4, 0.85, 0)
    weights = np.arange(generator.vocab_size) % 7
    weighted = replace(generator, token_weights=tuple(map(float, weights)))
    assert masker(electra, token_weights=weights) == weighted


def test_pairs_and_sentences_have_the_labels_of_their_models(
    tmp_path: Path, cache_folder: Path
) -> None:
    for segments, more in (
        ("sentence-order", {"token_type_ids", "sentence_order_label"}),
        ("doc-sentences", set[str]()),
    ):
        options = BertOptions(segments=segments, max_seq_length=32, duplicates=1)  # type: ignore[arg-type]
        write_dataset(tmp_path / segments, Recipe(options))
        data_set = DataSet(tmp_path / segments, cache_folder=cache_folder)
        batch = collator_for(data_set)(data_set.take(np.arange(4)))
        assert batch.keys() == {"input_ids", "attention_mask", "labels"} | more


def test_options_that_do_not_suit_the_data_are_refused(request: pytest.FixtureRequest) -> None:
    unsuited: list[tuple[str, dict[str, Any], str]] = [
        ("bert", {"mask": False}, "mask=False"),
        ("bert", {"mask_word_prob": 0.5}, "mask_word_prob=0.5"),
        ("bert_dynamic", {"mask_word_prob": 0.5}, "mask_word_prob=0.5"),
        ("bert_dynamic", {"seed": -1}, "seed=-1"),
        ("ernie", {"mask_word_prob": 1.5}, "mask_word_prob=1.5"),
        ("ernie", {"mask_word_prob": (0.5, 1)}, "mask_word_prob=[0.5, 1]"),
        ("ernie", {"predicted": "targets"}, "predicted=targets"),
        ("bert_dynamic", {"token_weights": [1.0]}, "token_weights"),
        ("electra", {"token_weights": [1.0]}, "token_weights"),
        ("bert", {"token_weights": [1.0]}, "token_weights=..."),
        ("ernie", {"token_weights": [1.0]}, "token_weights=..."),
        ("gpt_windows", {"token_weights": np.ones(9)}, "token_weights=..."),
        ("gpt_windows", {"predicted": "label"}, "predicted=label"),
        ("gpt_windows", {"layout": "flattened"}, "layout=flattened"),
        ("gpt_pack", {"layout": "columns"}, 'layout="columns"'),
        ("gpt_pack", {"layout": "flattened", "padding": "max_length"}, 'layout="flattened"'),
        ("gpt_stream", {"padding": "max_length"}, 'padding="max_length"'),
        ("bert_packed", {"layout": "columns"}, 'layout="columns"'),
        ("bert_packed", {"layout": "flattened", "padding": "max_length"}, 'layout="flattened"'),
        ("bert_packed", {"predicted": "targets"}, "predicted=targets"),
        ("bert_packed", {"mask_word_prob": 0.5}, "mask_word_prob=0.5"),
        ("bert_dynamic", {"layout": "flattened"}, "layout=flattened"),
        ("t5_dynamic", {"mask": False}, "mask=False"),
        ("t5_dynamic", {"predicted": "targets"}, "predicted=targets"),
        ("t5_dynamic", {"seed": -1}, "seed=-1"),
    ]
    for name, options, named in unsuited:
        with pytest.raises(UserError) as refusal:
            collator_for(DataSet(request.getfixturevalue(name)), **options)
        assert refusal.value.value == named, (name, options)


def test_windows_longer_than_the_model_are_refused(gpt_stream: Path) -> None:
    windows = TokenWindows(DataSet(gpt_stream), 16)
    assert collator_for(windows, max_length=16) == WindowCollator()
    with pytest.raises(UserError, match="16 tokens"):
        collator_for(windows, max_length=8)

"""Rows for masked diffusion: as the papers draw them, and never the padding."""

import random
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy

from corpusmill.errors import UserError
from corpusmill.reading.collate.collators import Padding, Predicted, collator_for
from corpusmill.reading.collate.masked_diffusion import DiffusionCollator, MaskedDiffusion
from corpusmill.reading.data_set import DataSet, Samples
from corpusmill.reading.load.batches import Batches
from corpusmill.reading.load.loader import Loader, make_batches
from corpusmill.reading.rows import Rows
from corpusmill.reading.token_windows import TokenWindows
from corpusmill.reading.torch.dataset import MapDataset
from corpusmill.reading.torch.document_attention import document_attention
from tests.corpusmill.reading.collate import reference_diffusion as reference
from tests.tools.batches_in_python import lists_of
from tests.tools.distributions import assert_counts, assert_same_distributions
from tests.tools.lazily import LazyModule

transformers = LazyModule("transformers")

ROWS = 6000
ROW = [20, 21, 22, 20, 24, 25, 26]
MASK = 4
PAD = 0
# The tokenizer's id of [PAD] is 0, and no text has it.
SETS = ["gpt_windows", "gpt_pack", "gpt_stream"]


def open_samples(request: pytest.FixtureRequest, name: str, cache_folder: Path) -> Samples:
    data_set = DataSet(request.getfixturevalue(name), cache_folder=cache_folder)
    return TokenWindows(data_set, 24) if name == "gpt_stream" else data_set


def properties(
    rows: Iterable[tuple[list[int], list[int], float]],
) -> Mapping[str, np.ndarray]:
    """Return integers that encode lengths, shares, and which places are masked together."""
    found: dict[str, list[int]] = {}
    for input_ids, labels, share in rows:
        masked = [label != -100 for label in labels]
        # Whole rows only, or most sets of places would be rare.
        is_whole = len(input_ids) == len(ROW)
        values = {
            "length": len(input_ids),
            "share in twentieths": int(20 * share),
            "masked": sum(masked) + 10 * int(4 * share),
            "set of places": sum(2**place for place, one in enumerate(masked) if one) * is_whole,
        }
        for name, value in values.items():
            found.setdefault(name, []).append(value)
        for token, label, was_masked, original in zip(input_ids, labels, masked, ROW, strict=False):
            assert (token, label) == ((MASK, original) if was_masked else (original, -100))
    return {name: np.array(values) for name, values in found.items()}


def own_rows(cut_rate: float, row: list[int] = ROW) -> list[tuple[list[int], list[int], float]]:
    diffusion = MaskedDiffusion(cut_rate=cut_rate, mask_id=MASK)
    collator = DiffusionCollator(Padding(PAD), diffusion, seed=2)
    columns = {"input_ids": lists_of([row] * ROWS)}
    rows = collator.prepare(Rows(columns, np.full(ROWS, 11), np.arange(ROWS)))
    return [(one["input_ids"].tolist(), one["labels"].tolist(), one["p_mask"]) for one in rows]


@pytest.mark.parametrize("cut_rate", [0.01, 0.5])
def test_rows_are_masked_as_llada_masks(cut_rate: float) -> None:
    rng = random.Random(4)  # noqa: S311 - no secret
    theirs = (reference.llada(ROW, MASK, cut_rate, rng) for _ in range(ROWS))
    rows = [(row.input_ids, row.labels, row.share) for row in theirs]
    assert_same_distributions(properties(own_rows(cut_rate)), properties(rows))


def test_rows_are_masked_as_mdlm_masks_and_their_weight_is_one_over_the_share() -> None:
    rng = random.Random(5)  # noqa: S311 - no secret
    theirs = [reference.mdlm(ROW, MASK, rng) for _ in range(ROWS)]
    assert all(row.weight == pytest.approx(1 / row.share) for row in theirs)
    rows = [(row.input_ids, row.labels, row.share) for row in theirs]
    assert_same_distributions(properties(own_rows(0.0)), properties(rows))


def test_the_range_of_shares_can_be_given() -> None:
    collator = DiffusionCollator(Padding(PAD), MaskedDiffusion(0.3, 0.8, 0.0, MASK))
    columns = {"input_ids": lists_of([ROW] * ROWS)}
    rows = collator.prepare(Rows(columns, np.arange(ROWS), np.zeros(ROWS, np.int64)))
    shares = rows.columns["p_mask"]
    assert isinstance(shares, np.ndarray)
    assert shares.min() >= 0.3
    assert shares.max() < 0.8
    assert_counts(np.histogram(shares, 10, (0.3, 0.8))[0], np.ones(10), "shares")


@pytest.mark.parametrize("predicted", ["labels", "targets"])
@pytest.mark.parametrize(
    ("name", "layout"), [*((name, "rows") for name in SETS), ("gpt_pack", "flattened")]
)
def test_batches_restore_the_text_and_padding_is_never_masked(
    request: pytest.FixtureRequest, cache_folder: Path, name: str, layout: str, predicted: Predicted
) -> None:
    samples = open_samples(request, name, cache_folder)
    options: dict[str, Any] = {"layout": layout} if layout != "rows" else {}
    diffusion = MaskedDiffusion(cut_rate=0.3)
    collator = collator_for(
        samples, diffusion=diffusion, pad_to_multiple_of=8, predicted=predicted, seed=3, **options
    )
    stored = samples.take(np.arange(40))
    rows = collator.prepare(stored)
    batch = collator(rows)
    input_ids, labels, shares = (batch[key] for key in ("input_ids", predicted, "p_mask"))
    kinds = {key: array.dtype.name for key, array in batch.items()}
    assert (kinds["input_ids"], kinds[predicted], kinds["p_mask"]) == ("int64", "int64", "float32")
    assert shares.shape == labels.shape == input_ids.shape
    flat = input_ids.reshape(-1)
    if predicted == "targets":  # a place predicts the next one
        labels = np.roll(labels.reshape(-1), 1).reshape(labels.shape)
        assert labels.reshape(-1)[0] == -100
    begins = np.arange(40) * input_ids.shape[1]
    if layout == "flattened":
        begins = np.cumsum([0, *rows.lists("input_ids").lengths[:-1]])
    is_text = np.zeros(flat.size, np.bool_)
    cut = 0
    for begin, row, masked in zip(begins, stored, rows, strict=True):
        text = row["tokens"][:-1] if "tokens" in row else row["input_ids"]
        length = len(masked["labels"])
        cut += length < len(text)
        place = slice(begin, begin + length)
        is_text[place] = True
        expected = np.where(labels.reshape(-1)[place] == -100, flat[place], text[:length])
        known = flat[place] != MASK
        assert (flat[place][known] == text[:length][known]).all()
        if predicted == "labels":
            assert (expected == text[:length]).all()
            assert ((labels.reshape(-1)[place] == -100) == known).all()
        assert (shares.reshape(-1)[place] == np.float32(masked["p_mask"])).all()
        if "cu_seqlens" in row:
            marks = masked["cu_seqlens"].tolist()
            assert marks == sorted({*row["cu_seqlens"][row["cu_seqlens"] < length], length})
    assert 3 < cut < 25
    assert (flat[~is_text] == PAD).all()
    assert (labels.reshape(-1)[~is_text] == -100).all()
    assert (shares.reshape(-1)[~is_text] == 1).all()
    if "attention_mask" in batch:
        assert (batch["attention_mask"].reshape(-1).astype(bool) == is_text).all()
    if predicted == "targets":
        firsts = batch["cu_seq_lens_q"][:-1] if "cu_seq_lens_q" in batch else begins
        assert (labels.reshape(-1)[firsts] == -100).all(), "no text predicts the next one"


@pytest.mark.parametrize("name", SETS)
def test_masks_depend_on_seed_epoch_and_number_alone(
    request: pytest.FixtureRequest, cache_folder: Path, name: str
) -> None:
    samples = open_samples(request, name, cache_folder)

    def read(batches: Batches, epoch: int = 0) -> dict[int, bytes]:
        numbers = np.arange(epoch * len(samples), (epoch + 1) * len(samples))
        rows = batches.collator.prepare(batches.take(numbers))
        return {
            number: row["labels"].tobytes()
            for number, row in zip(rows.samples.tolist(), rows, strict=True)
        }

    options: dict[str, Any] = {"diffusion": MaskedDiffusion()}
    first = read(make_batches(samples, 8, seed=1, **options))
    assert read(make_batches(samples, 3, seed=1, shuffle=False, **options)) == first
    for other in (
        read(make_batches(samples, 8, seed=2, **options)),
        read(make_batches(samples, 8, seed=1, **options), epoch=1),
    ):
        assert sum(other[number] != first[number] for number in first) > 0.8 * len(first)
    dataset = MapDataset(samples, make_batches(samples, 8, seed=1, **options).collator)
    batch = dataset.collate(dataset.__getitems__([3, 1]))
    assert batch["labels"][0].numpy()[: len(first[3]) // 4].astype(np.int32).tobytes() == first[3]


def test_a_small_model_learns_by_diffusion(gpt_pack: Path, cache_folder: Path) -> None:
    """ModernBERT on packed rows, with the loss of the papers, learns a few rows."""
    data_set = DataSet(gpt_pack, cache_folder=cache_folder)
    transformers.AttentionInterface.register("documents", document_attention)
    torch.manual_seed(1)
    config = transformers.ModernBertConfig(
        vocab_size=601, hidden_size=32, intermediate_size=64, num_hidden_layers=2,
        num_attention_heads=2, max_position_embeddings=64, attn_implementation="documents",
        **dict.fromkeys([f"{name}_token_id" for name in ("pad", "bos", "eos", "cls", "sep")], PAD),
    )  # fmt: skip
    model = transformers.ModernBertForMaskedLM(config)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    collate, losses = collator_for(data_set, seed=1, diffusion=MaskedDiffusion(0.1)), []
    for epoch in range(150):
        rows = collate.prepare(data_set.take(np.arange(8), np.full(8, epoch)))
        batch = {name: torch.from_numpy(array) for name, array in collate(rows).items()}
        labels, shares = batch.pop("labels"), batch.pop("p_mask")
        logits = model(**batch).logits
        masked = labels != -100
        loss = cross_entropy(logits[masked], labels[masked], reduction="none") / shares[masked]
        loss = loss.sum() / (batch["input_ids"] != PAD).sum()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    assert np.mean(losses[:3]) > 0.8 * np.log(601), "nothing is known"
    assert np.mean(losses[-20:]) < 0.75 * np.log(601)


def test_wrong_settings_are_refused() -> None:
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"least_share": 0.0}, r"least_share=0\.0, .*no share can be drawn"),
        ({"least_share": 0.5, "greatest_share": 0.4}, "the least one first"),
        ({"greatest_share": 1.1}, r"greatest_share=1\.1"),
        ({"least_share": float("nan")}, "least_share=nan"),
        ({"cut_rate": -0.1}, r"cut_rate=-0\.1: it is not a share"),
        ({"mask_id": -1}, "mask_id=-1: it is no id"),
        ({"mask_id": 2**31}, "mask_id=2147483648"),
    ]
    for values, message in wrong:
        with pytest.raises(UserError, match=message):
            MaskedDiffusion(**values)


def test_data_that_diffusion_does_not_suit_is_refused(gpt_windows: Path, bert: Path) -> None:
    diffusion = MaskedDiffusion()
    with pytest.raises(UserError, match=r"diffusion=.*not those of a model of the next token"):
        make_batches(DataSet(bert), 4, diffusion=diffusion)
    with pytest.raises(UserError, match="diffusion=True: it is no MaskedDiffusion"):
        make_batches(DataSet(gpt_windows), 4, diffusion=True)  # type: ignore[arg-type]
    with pytest.raises(UserError, match="layout=flattened: the rows are not packed"):
        make_batches(DataSet(gpt_windows), 4, diffusion=diffusion, layout="flattened")
    maskless = DataSet(gpt_windows)
    object.__setattr__(maskless.manifest.tokenizer.special, "mask_id", None)
    with pytest.raises(UserError, match=r"no mask token. Give .*MaskedDiffusion\(mask_id=601\)"):
        make_batches(maskless, 4, diffusion=diffusion)
    batches = make_batches(maskless, 4, diffusion=MaskedDiffusion(0.9, mask_id=601))
    assert any(601 in batch["input_ids"] for batch in Loader(batches))

"""Models of transformers take batches unchanged, and interpret them correctly."""

from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from corpusmill.objectives.bert import BertOptions
from corpusmill.objectives.bert_rows import Segments
from corpusmill.reading.collate.collators import collator_for
from corpusmill.reading.data_set import DataSet, Samples
from corpusmill.reading.rows import Rows
from corpusmill.reading.token_windows import TokenWindows
from tests.tools.small_datasets import Recipe, write_dataset

SIZES: dict[str, Any] = {
    "vocab_size": 601, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2,
    "intermediate_size": 16, "max_position_embeddings": 70,
}  # fmt: skip
# No dropout: the same tokens give the same losses.
CALM: dict[str, Any] = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}


def model(name: str, config: str, /, **options: Any) -> Any:
    """Return a model with random weights, the same each time."""
    transformers = import_module("transformers")  # it is slow, and most processes do without
    torch.manual_seed(1)
    built = getattr(transformers, name)(getattr(transformers, config)(**options))
    return built.eval()


def gpt() -> Any:
    return model(
        "GPT2LMHeadModel", "GPT2Config", vocab_size=601, n_embd=16, n_layer=2, n_head=2,
        n_positions=800, attn_implementation="eager", bos_token_id=600, eos_token_id=600,
        resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
        # With a cache, which is for generation, pieces are not recognized by their positions.
        use_cache=False,
    )  # fmt: skip


def tensors(batch: dict[str, np.ndarray]) -> dict[str, torch.Tensor]:
    return {name: torch.from_numpy(array) for name, array in batch.items()}


def batch_of(samples: Samples, rows: Rows | None = None, **options: Any) -> dict[str, torch.Tensor]:
    collate = collator_for(samples, **options)
    return tensors(collate(collate.prepare(rows or samples.take(np.arange(5)))))


def rows_of_pieces(data_set: DataSet) -> Rows:
    """Return the packed rows with the most pieces, and one that is not full."""
    rows = data_set.take(np.arange(len(data_set)))
    most = np.argsort(-rows.lists("cu_seqlens").lengths, kind="stable")[:4]
    return data_set.take(np.append(most, np.argmin(rows.lists("input_ids").lengths)))


@pytest.mark.parametrize(
    ("name", "classes"),
    [
        ("bert", ("BertForPreTraining", "BertConfig")),
        ("bert_dynamic", ("BertForPreTraining", "BertConfig")),
        ("ernie", ("ErnieForPreTraining", "ErnieConfig")),
        ("electra", ("ElectraForMaskedLM", "ElectraConfig")),
    ],
)
def test_masked_rows_train_their_models(
    request: pytest.FixtureRequest, cache_folder: Path, name: str, classes: tuple[str, str]
) -> None:
    data_set = DataSet(request.getfixturevalue(name), cache_folder=cache_folder)
    trained = model(*classes, **SIZES, **CALM)
    narrow = trained(**batch_of(data_set)).loss
    assert torch.isfinite(narrow)
    # Padding changes nothing, as masks and labels cover it.
    wide = trained(**batch_of(data_set, padding="max_length", max_length=70)).loss
    assert narrow.item() == pytest.approx(wide.item(), rel=1e-5)


@pytest.mark.parametrize(
    ("segments", "classes"),
    [
        ("sentence-order", ("AlbertForPreTraining", "AlbertConfig")),
        ("doc-sentences", ("RobertaForMaskedLM", "RobertaConfig")),
    ],
)
def test_other_kinds_of_rows_train_their_models(
    tmp_path: Path, cache_folder: Path, segments: Segments, classes: tuple[str, str]
) -> None:
    options = BertOptions(segments=segments, max_seq_length=32, duplicates=1)
    write_dataset(tmp_path / "out", Recipe(options))
    data_set = DataSet(tmp_path / "out", cache_folder=cache_folder)
    loss = model(*classes, **SIZES, **CALM)(**batch_of(data_set)).loss
    assert torch.isfinite(loss)


def test_windows_train_gpt(gpt_windows: Path, cache_folder: Path) -> None:
    data_set = DataSet(gpt_windows, cache_folder=cache_folder)
    narrow = gpt()(**batch_of(data_set)).loss
    wide = gpt()(**batch_of(data_set, padding="max_length", max_length=70)).loss
    assert narrow.item() == pytest.approx(wide.item(), rel=1e-5)


def test_labels_and_targets_are_the_same_predictions(gpt_stream: Path, cache_folder: Path) -> None:
    """But for the last token of a window, which labels do not contain."""
    windows = TokenWindows(DataSet(gpt_stream, cache_folder=cache_folder), 32)
    labelled, shifted = batch_of(windows), batch_of(windows, predicted="targets")
    output = gpt()(**labelled)
    logits = gpt()(shifted["input_ids"]).logits[:, :-1]
    expected = torch.nn.functional.cross_entropy(
        logits.flatten(0, 1), shifted["targets"][:, :-1].flatten()
    )
    assert output.loss.item() == pytest.approx(expected.item(), rel=1e-5)


@pytest.mark.parametrize("layout", ["rows", "flattened"])
def test_packed_pieces_do_not_attend_to_one_another(
    gpt_pack: Path, cache_folder: Path, layout: str
) -> None:
    """The model predicts the same for a piece as for the piece alone."""
    data_set = DataSet(gpt_pack, cache_folder=cache_folder)
    rows = rows_of_pieces(data_set)
    batch = batch_of(data_set, rows, layout=layout, pad_to_multiple_of=16)
    logits = gpt()(**batch).logits.flatten(0, 1)
    input_ids, labels = batch["input_ids"].flatten(), batch["labels"].flatten()
    ends = batch["cu_seq_lens_q"].tolist()
    assert len(ends) > 10
    for begin, end in pairwise(ends):
        alone = gpt()(input_ids[begin:end][None]).logits[0]
        assert torch.allclose(alone, logits[begin:end], atol=1e-5)
        assert labels[begin] == -100


def test_flattened_rows_are_those_of_transformers(gpt_pack: Path, cache_folder: Path) -> None:
    data_set = DataSet(gpt_pack, cache_folder=cache_folder)
    rows = rows_of_pieces(data_set)
    batch = collator_for(data_set, layout="flattened")(rows)
    pieces = [
        {"input_ids": piece.tolist()}
        for row in rows
        for piece in np.split(row["input_ids"], row["cu_seqlens"][1:-1])
    ]
    collator = import_module("transformers").DataCollatorWithFlattening
    theirs = collator(return_flash_attn_kwargs=True, return_tensors="np")(pieces)
    assert batch.keys() == theirs.keys()
    for name, array in batch.items():
        assert array.tolist() == np.asarray(theirs[name]).tolist(), name
        if array.ndim:
            assert array.dtype == theirs[name].dtype, name

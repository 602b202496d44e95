"""Models of transformers take batches unchanged, and interpret them correctly."""

from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from corpusmill.reading.collate.collators import collator_for
from corpusmill.reading.data_set import DataSet, Samples
from corpusmill.reading.rows import Rows
from corpusmill.reading.token_windows import TokenWindows
from corpusmill.reading.torch.document_attention import document_attention

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


def modern_bert() -> Any:
    """ModernBERT with local layers that see fewer tokens than documents have."""
    interface = import_module("transformers").AttentionInterface
    interface.register("documents", document_attention)
    return model(
        "ModernBertForMaskedLM", "ModernBertConfig", vocab_size=601, hidden_size=32,
        num_hidden_layers=3, num_attention_heads=2, intermediate_size=32, local_attention=16,
        global_attn_every_n_layers=2, max_position_embeddings=256, initializer_range=0.5,
        initializer_cutoff_factor=3.0, pad_token_id=0, bos_token_id=2, eos_token_id=3,
        cls_token_id=2, sep_token_id=3,
    )  # fmt: skip


@pytest.mark.parametrize("layout", ["rows", "flattened"])
def test_packed_documents_are_to_modern_bert_as_if_alone(
    bert_packed: Path, cache_folder: Path, layout: str
) -> None:
    """Logits and loss are those of each document in a padded row of its own."""
    data_set = DataSet(bert_packed, cache_folder=cache_folder)
    rows, trained = rows_of_pieces(data_set), modern_bert()
    batch = batch_of(data_set, rows, layout=layout, pad_to_multiple_of=16)
    input_ids, labels = batch["input_ids"].flatten(), batch["labels"].flatten()
    pieces = [range(*ends) for ends in pairwise(batch["cu_seq_lens_q"].tolist())]
    pieces = [piece for piece in pieces if input_ids[piece[0]] == 2]
    assert len(pieces) > 8
    width = max(map(len, pieces))
    alone = {
        name: torch.stack(
            [torch.nn.functional.pad(values[piece], (0, width - len(piece)), value=fill)
             for piece in pieces]
        )
        for name, values, fill in (
            ("input_ids", input_ids, 0), ("labels", labels, -100),
            ("attention_mask", torch.ones_like(input_ids), 0),
        )
    }  # fmt: skip
    with torch.no_grad():
        expected = trained(**alone)
        ignored = trained(**batch).loss
        trained.set_attn_implementation("documents")
        output = trained(**batch)
    assert output.loss.item() == pytest.approx(expected.loss.item(), rel=1e-5)
    logits = output.logits.flatten(0, 1)
    for piece, row in zip(pieces, expected.logits, strict=True):
        assert torch.allclose(logits[piece], row[: len(piece)], atol=1e-3)
    # PyTorch's attention would let documents attend to one another.
    assert ignored.item() != pytest.approx(expected.loss.item(), rel=1e-3)


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
    theirs = collator(return_flash_attn_kwargs=True, return_seq_idx=True, return_tensors="np")(
        pieces
    )
    assert batch.keys() == theirs.keys()
    for name, array in batch.items():
        assert array.tolist() == np.asarray(theirs[name]).tolist(), name
        if array.ndim:
            assert array.dtype == theirs[name].dtype, name

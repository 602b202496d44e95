"""Packed rows by the names and types of those that read them; no document sees another."""

from collections.abc import Callable, Iterator
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from corpusmill.reading.collate.causal_collators import PackedCollator
from corpusmill.reading.collate.collators import Layout, Padding, collator_for
from corpusmill.reading.collate.masked_diffusion import MaskedDiffusion
from corpusmill.reading.data_set import DataSet
from tests.tools.batches_in_python import pack, pieces_of_rows
from tests.tools.lazily import LazyModule

grain = LazyModule("grain")

PAD = 0
Pieces = list[list[int]]


def collate(rows: list[Pieces], layout: Layout, multiple: int | None = None) -> dict[str, Any]:
    return PackedCollator(Padding(PAD, pad_to_multiple_of=multiple), layout)(pack(rows))


def types_of(batch: dict[str, Any]) -> dict[str, str]:
    return {name: array.dtype.name for name, array in batch.items()}


def next_tokens(piece: list[int], nothing: int = -100) -> list[int]:
    return [*piece[1:], nothing]


@given(pieces_of_rows)
def test_torchtitan_has_positions_and_the_next_token_at_each_place(rows: list[Pieces]) -> None:
    """As its TextCollator: labels are shifted, and -100 where the next position is 0."""
    batch = collate(rows, "torchtitan")
    named = PackedCollator(Padding(PAD), "rows", "targets")(pack(rows))
    for name, other in (
        ("input", "input_ids"),
        ("positions", "position_ids"),
        ("labels", "targets"),
    ):
        assert np.array_equal(batch[name], named[other])
    assert types_of(batch) == dict.fromkeys(["input", "positions", "labels"], "int64")
    width = max(sum(map(len, pieces)) for pieces in rows)
    for number, pieces in enumerate(rows):
        ids, positions, labels = (array[number].tolist() for array in batch.values())
        used = sum(map(len, pieces))
        assert ids == [token for piece in pieces for token in piece] + [PAD] * (width - used)
        assert labels[:used] == [label for piece in pieces for label in next_tokens(piece)]
        assert labels[used:] == [-100] * (width - used)
        expected = [place for piece in pieces for place in range(len(piece))]
        assert positions == [*expected, *range(width - used)]


@given(pieces_of_rows)
def test_grain_has_the_arrays_that_its_own_packing_makes(rows: list[Pieces]) -> None:
    batch = collate(rows, "grain")
    assert set(types_of(batch).values()) == {"int32"}
    width = batch["inputs"].shape[1]
    for number, pieces in enumerate(rows):
        elements = [{"inputs": np.array(piece), "targets": np.array(piece)} for piece in pieces]
        packing = grain.experimental.FirstFitPackIterDataset(
            grain.MapDataset.source(elements).to_iter_dataset(),
            length_struct={"inputs": width, "targets": width},
            num_packing_bins=1,
        )
        theirs = next(iter(packing))
        assert theirs.keys() == batch.keys()
        for name, array in theirs.items():
            if not name.startswith("targets") or name == "targets_positions":
                assert batch[name][number].tolist() == array.tolist(), name
        labels = [label for piece in pieces for label in next_tokens(piece, 0)]
        is_predicted = [one for piece in pieces for one in [1] * (len(piece) - 1) + [0]]
        segments = theirs["inputs_segment_ids"][: len(labels)] * np.array(is_predicted)
        rest = [0] * (width - len(labels))
        assert batch["targets"][number].tolist() == labels + rest
        assert batch["targets_segment_ids"][number].tolist() == segments.tolist() + rest


@given(pieces_of_rows, st.sampled_from([None, 1, 4, 8]))
def test_megatron_has_padded_documents_in_one_row(rows: list[Pieces], multiple: int | None) -> None:
    """The fields of PackedSeqParams, and seq_idx as it computes it from the padded ends."""
    batch = collate(rows, "megatron", multiple)
    kinds = types_of(batch)
    assert {name for name, kind in kinds.items() if kind == "int32"} == {
        "cu_seqlens_q", "cu_seqlens_kv", "cu_seqlens_q_padded", "cu_seqlens_kv_padded", "seq_idx"
    }  # fmt: skip
    assert kinds["loss_mask"] == "float32"
    assert kinds["tokens"] == kinds["labels"] == kinds["position_ids"] == "int64"
    tokens, labels, positions, numbers, ends, padded = [], [], list[int](), [], [0], [0]
    mask: list[float] = []
    for number, piece in enumerate(piece for pieces in rows for piece in pieces):
        size = -(-len(piece) // (multiple or 1)) * (multiple or 1)
        rest = [0] * (size - len(piece))
        tokens += piece + rest
        labels += next_tokens(piece, 0) + rest
        mask += [1.0] * (len(piece) - 1) + [0.0] * (1 + len(rest))
        positions += range(size)
        numbers += [number] * size
        ends.append(ends[-1] + len(piece))
        padded.append(padded[-1] + size)
    expected: dict[str, Any] = {
        "tokens": [tokens], "labels": [labels], "loss_mask": [mask], "position_ids": [positions],
        "seq_idx": [numbers], "cu_seqlens_q": ends, "cu_seqlens_kv": ends,
        "cu_seqlens_q_padded": padded, "cu_seqlens_kv_padded": padded,
        "max_seqlen_q": max(np.diff(padded)), "max_seqlen_kv": max(np.diff(padded)),
    }  # fmt: skip
    assert {name: array.tolist() for name, array in batch.items()} == expected


def gpt() -> Any:
    transformers = import_module("transformers")
    torch.manual_seed(1)
    config = transformers.GPT2Config(
        vocab_size=601, n_embd=16, n_layer=2, n_head=2, n_positions=800, use_cache=False,
        attn_implementation="eager", bos_token_id=600, eos_token_id=600, initializer_range=0.3,
    )  # fmt: skip
    return transformers.GPT2LMHeadModel(config).eval()


def hybrid(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Bamba: a layer of Mamba 2 and one of attention.

    Its kernels need a GPU; in their place the functions in PyTorch run each stretch of one seq_idx
    by itself, which is what the kernels do with it.
    """
    transformers = import_module("transformers")
    module = import_module("transformers.models.bamba.modeling_bamba")
    scan, convolve = module.mamba2_chunk_scan, module.causal_conv1d_fn

    def stretches(seq_idx: torch.Tensor) -> Iterator[tuple[int, slice]]:
        for row, numbers in enumerate(seq_idx.tolist()):
            changes = [at for at in range(1, len(numbers)) if numbers[at] != numbers[at - 1]]
            for begin, end in pairwise([0, *changes, len(numbers)]):
                yield row, slice(begin, end)

    def scan_apart(
        states: Any, dt: Any, a: Any, b: Any, c: Any, *, seq_idx: Any, **rest: Any
    ) -> Any:
        parts = torch.empty_like(states, dtype=torch.float32)
        for row, span in stretches(seq_idx):
            timed = [array[row : row + 1, span] for array in (states, dt, b, c)]
            parts[row, span] = scan(timed[0], timed[1], a, *timed[2:], **rest)[0]
        return parts

    def convolve_apart(states: Any, weight: Any, bias: Any, *, seq_idx: Any, **rest: Any) -> Any:
        parts = torch.empty_like(states)
        rest = {"activation": rest["activation"]}
        for row, span in stretches(seq_idx):
            parts[row, :, span] = convolve(states[row : row + 1, :, span], weight, bias, **rest)[0]
        return parts

    monkeypatch.setattr(module, "mamba2_chunk_scan", scan_apart)
    monkeypatch.setattr(module, "causal_conv1d_fn", convolve_apart)
    torch.manual_seed(1)
    config = transformers.BambaConfig(
        vocab_size=601, hidden_size=32, intermediate_size=32, num_hidden_layers=2, use_cache=False,
        num_attention_heads=2, num_key_value_heads=2, attn_layer_indices=[1], mamba_n_heads=4,
        mamba_d_head=16, mamba_d_state=8, mamba_expand=2, mamba_chunk_size=8, pad_token_id=PAD,
        bos_token_id=600, eos_token_id=600, attn_implementation="eager", initializer_range=0.3,
    )  # fmt: skip
    return transformers.BambaForCausalLM(config).eval()


def masked_by(segments: torch.Tensor) -> torch.Tensor:
    """Return an additive mask, [rows, 1, places, places], causal inside each segment."""
    same = segments[:, None, :, None] == segments[:, None, None, :]
    places = torch.arange(segments.shape[1])
    is_seen = same & (places[:, None] >= places)
    return torch.zeros(is_seen.shape).masked_fill(~is_seen, torch.finfo(torch.float32).min)


# The names of tokens and positions in each layout, and the documents that places are of.
NAMED: dict[str, tuple[str, str, Callable[[dict[str, torch.Tensor]], torch.Tensor]]] = {
    "torchtitan": ("input", "positions", lambda batch: (batch["positions"] == 0).cumsum(1)),
    "grain": ("inputs", "inputs_positions", lambda batch: batch["inputs_segment_ids"]),
    # From one padded end to the next.
    "megatron": ("tokens", "position_ids", lambda batch: torch.bucketize(
        torch.arange(batch["tokens"].shape[1]), batch["cu_seqlens_q_padded"], right=True
    )[None]),
}  # fmt: skip


def read(model: Any, batch: dict[str, torch.Tensor], layout: str) -> torch.Tensor:
    """Return the logits of a model that attends within documents, as the layout says them."""
    if layout not in NAMED:
        return torch.as_tensor(model(**batch).logits)
    ids, positions, segments_of = NAMED[layout]
    mask = masked_by(segments_of(batch))
    output = model(batch[ids].long(), attention_mask=mask, position_ids=batch[positions].long())
    return torch.as_tensor(output.logits)


@pytest.mark.parametrize(
    ("kind", "layout"),
    [("attention", layout) for layout in get_args(Layout)]
    + [("hybrid", "rows"), ("hybrid", "flattened")],
)
def test_a_document_is_to_a_model_as_if_alone(
    gpt_pack: Path, cache_folder: Path, monkeypatch: pytest.MonkeyPatch, layout: Layout, kind: str
) -> None:
    model = gpt() if kind == "attention" else hybrid(monkeypatch)
    data_set = DataSet(gpt_pack, cache_folder=cache_folder)
    every = data_set.take(np.arange(len(data_set)))
    rows = data_set.take(np.argsort(-every.lists("cu_seqlens").lengths, kind="stable")[:5])
    stored = [
        piece
        for row in rows
        for piece in np.split(row["input_ids"].astype(np.int64), row["cu_seqlens"][1:-1])
    ]
    assert len(stored) > 8
    collated = collator_for(data_set, layout=layout, pad_to_multiple_of=8)(rows)
    batch = {name: torch.from_numpy(array) for name, array in collated.items()}
    with torch.no_grad():
        logits = read(model, batch, layout).flatten(0, 1)
        ids, *_ = NAMED.get(layout, ["input_ids"])
        flat, place = batch[ids].flatten(), 0
        for piece in stored:
            while flat[place : place + len(piece)].tolist() != piece.tolist():
                place += 1  # padding
            own = collator_for(data_set, layout="flattened")(pack([[piece.tolist()]]))
            alone = {name: torch.from_numpy(array) for name, array in own.items()}
            expected = model(**alone).logits[0]
            assert torch.allclose(logits[place : place + len(piece)], expected, atol=1e-4)
            place += len(piece)
        # Without the boundaries documents would see each other.
        blind = {"input_ids": batch[ids].long()}
        if kind == "hybrid":
            blind["seq_idx"] = torch.zeros_like(batch["seq_idx"])
        assert not torch.allclose(model(**blind).logits.flatten(0, 1), logits, atol=1e-2)


def test_a_hybrid_without_kernels_refuses_packed_rows(gpt_pack: Path, cache_folder: Path) -> None:
    """As seq_idx is in the batch, transformers never mixes documents in silence."""
    with pytest.MonkeyPatch.context() as patched:
        model = hybrid(patched)
    data_set = DataSet(gpt_pack, cache_folder=cache_folder)
    batch = collator_for(data_set, layout="flattened")(data_set.take(np.arange(2)))
    with pytest.raises(ValueError, match="can't keep packed sequences apart"):
        model(**{name: torch.from_numpy(array) for name, array in batch.items()})


@pytest.mark.parametrize("layout", NAMED)
def test_masked_rows_have_their_labels_in_place(
    bert_packed: Path, cache_folder: Path, layout: Layout
) -> None:
    data_set = DataSet(bert_packed, cache_folder=cache_folder)
    plain, named = (collator_for(data_set, seed=1, layout=one) for one in ("rows", layout))
    rows = plain.prepare(data_set.take(np.arange(5)))
    expected, batch = plain(rows), named(rows)
    is_predicted = expected["labels"] != -100
    ids = batch[NAMED[layout][0]]
    labels = batch["targets" if layout == "grain" else "labels"]
    if layout == "grain":
        assert ((batch["targets_segment_ids"] != 0) == is_predicted).all()
    if layout == "megatron":
        shown = batch["loss_mask"] == 1
        assert labels[shown].tolist() == expected["labels"][is_predicted].tolist()
        assert ids[shown].tolist() == expected["input_ids"][is_predicted].tolist()
    else:
        assert labels[is_predicted].tolist() == expected["labels"][is_predicted].tolist()
        assert ids.tolist() == expected["input_ids"].tolist()
    assert "labels" not in collator_for(data_set, mask=False, layout=layout)(
        data_set.take(np.arange(5))
    )


@pytest.mark.parametrize("layout", NAMED)
def test_rows_for_diffusion_have_the_share_of_each_token(
    gpt_pack: Path, cache_folder: Path, layout: Layout
) -> None:
    data_set = DataSet(gpt_pack, cache_folder=cache_folder)
    options: dict[str, Any] = {"diffusion": MaskedDiffusion(), "seed": 1}
    plain = collator_for(data_set, **options)
    rows = plain.prepare(data_set.take(np.arange(5)))
    expected = plain(rows)
    batch = collator_for(data_set, layout=layout, pad_to_multiple_of=4, **options)(rows)
    ids = batch[NAMED[layout][0]]
    for kind in (np.equal, np.greater):
        found, same = kind(ids, 4), kind(expected["input_ids"], 4)
        assert batch["p_mask"][found].tolist() == expected["p_mask"][same].tolist()
    assert (batch["p_mask"][ids == PAD] == 1).all()

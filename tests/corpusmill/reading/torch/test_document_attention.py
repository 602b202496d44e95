"""Attention inside pieces is PyTorch's own with a mask of the pieces."""

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention

from corpusmill.reading.torch import document_attention as attention
from corpusmill.reading.torch.document_attention import document_attention

BOUNDARIES = torch.tensor([0, 9, 10, 24, 30, 48], dtype=torch.int32)


def states(rows: int = 2, places: int = 24) -> list[torch.Tensor]:
    torch.manual_seed(1)
    return [torch.randn(rows, 3, places, 4) for _ in range(3)]


@pytest.mark.parametrize("window", [None, 1, 3, 7, 100])
@pytest.mark.parametrize("queries", [4, 1024])
def test_masked_attention_is_the_same(
    window: int | None, queries: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attention, "_QUERIES", queries)
    query, key, value = states()
    pieces = (torch.arange(48)[:, None] >= BOUNDARIES).sum(1).view(2, 24)
    places = torch.arange(24)
    mask = pieces[:, :, None] == pieces[:, None, :]
    if window is not None:
        mask &= (places[:, None] - places).abs() < window
    expected = scaled_dot_product_attention(
        query, key, value, attn_mask=mask[:, None], scale=0.3
    ).transpose(1, 2)
    attended, weights = document_attention(
        torch.nn.Identity(), query, key, value, None, cu_seq_lens_q=BOUNDARIES, scaling=0.3,
        sliding_window=window, dropout=0.0,
    )  # fmt: skip
    assert weights is None
    assert torch.allclose(attended, expected, atol=1e-6)
    flattened = [state.transpose(0, 1).flatten(1, 2)[None] for state in (query, key, value)]
    flat, _ = document_attention(
        torch.nn.Identity(), flattened[0], flattened[1], flattened[2], None,
        cu_seq_lens_q=BOUNDARIES, scaling=0.3, sliding_window=window,
    )  # fmt: skip
    assert torch.allclose(flat[0].view(2, 24, 3, 4), expected, atol=1e-6)


def test_other_batches_are_refused() -> None:
    query, key, value = states()
    layer = torch.nn.Identity()
    with pytest.raises(ValueError, match="cu_seq_lens_q"):
        document_attention(layer, query, key, value, None)
    mask = torch.ones(2, 1, 24, 24)
    with pytest.raises(ValueError, match="without a mask"):
        document_attention(layer, query, key, value, mask, cu_seq_lens_q=BOUNDARIES)
    setattr(layer, "is_causal", True)  # noqa: B010  an attribute of a layer of transformers
    with pytest.raises(ValueError, match="both sides"):
        document_attention(layer, query, key, value, None, cu_seq_lens_q=BOUNDARIES)

"""Attention that stays inside the pieces of packed rows, in plain PyTorch.

FlashAttention takes the pieces' boundaries from a batch; PyTorch's own attention takes a mask
instead, which grows with the square of a row, and models with local attention need two. Here each
piece attends by itself, so that time and memory are those of the pieces.
"""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import torch
from torch.nn.functional import scaled_dot_product_attention

# The queries of one call of local attention, of which each sees the keys near it.
_QUERIES = 1024


def document_attention(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    **options: Any,
) -> tuple[torch.Tensor, None]:
    """Attend inside each piece, to both sides; an attention function of transformers.

    Args:
        module: the layer; it must not be causal.
        query: [rows, heads, places, width of a head].
        key: the same shape.
        value: the same shape.
        attention_mask: None; padding is a piece of its own.
        options: what transformers pass on from the batch and the layer: cu_seq_lens_q, and perhaps
            dropout, scaling, and sliding_window, the distance from which on a place is not seen.

    Returns:
        [rows, places, heads, width of a head], and None.

    Raises:
        ValueError: the batch lacks the boundaries of pieces, has a mask, or the layer is causal.

    Example:
        AttentionInterface.register("documents", document_attention) lets a model of transformers
        have attn_implementation="documents", and take batches of `MaskedLmCollator`
        unchanged.
    """
    boundaries = options.get("cu_seq_lens_q")
    if boundaries is None or attention_mask is not None:
        raise ValueError("document_attention takes batches with cu_seq_lens_q and without a mask")
    if getattr(module, "is_causal", False):
        raise ValueError("document_attention is for models that see both sides of a token")
    # All rows as one: [1, heads, rows * places, width].
    flat = [states.transpose(0, 1).flatten(1, 2)[None] for states in (query, key, value)]
    dropout, scaling = options.get("dropout") or 0.0, options.get("scaling")
    pieces = [
        scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=dropout, scale=scaling)
        for begin, end in pairwise(boundaries.tolist())
        for (q, k, v), mask in _split(flat, begin, end, options.get("sliding_window"))
    ]
    rows, heads, places, width = query.shape
    attended = torch.cat(pieces, 2)[0].view(heads, rows, places, width)
    return attended.permute(1, 2, 0, 3).contiguous(), None


def _split(
    flat: list[torch.Tensor], begin: int, end: int, window: int | None
) -> Iterator[tuple[list[torch.Tensor], torch.Tensor | None]]:
    """Yield queries, keys and values of a piece, and which queries see which keys; None for all."""
    if window is None or end - begin <= window:
        if end > begin:
            yield [states[:, :, begin:end] for states in flat], None
        return
    query, key, value = flat
    places = torch.arange(end, device=query.device)
    for first in range(begin, end, _QUERIES):
        last = min(first + _QUERIES, end)
        left, right = max(begin, first - window + 1), min(end, last + window - 1)
        distances = places[first:last, None] - places[left:right]
        states = [query[:, :, first:last], key[:, :, left:right], value[:, :, left:right]]
        yield states, distances.abs() < window

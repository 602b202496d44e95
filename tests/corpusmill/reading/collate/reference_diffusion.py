"""Masked diffusion in plain Python, as the papers and their programs describe it.

Nie et al. 2025, "Large Language Diffusion Models": t is drawn for a row, uniform from 0 to 1, each
token is masked with the probability t, and the loss of masked tokens is divided by t; section 2.2
sets 1 % of the data to a random length, uniform from 1 to its own. `forward_process` of their
guidelines keeps t from 0 by (1 - eps) * t + eps, with eps = 0.001.

Sahoo et al. 2024, "Simple and Effective Masked Diffusion Language Models": with the log-linear
schedule, alpha(t) = 1 - t, the probability of a mask is 1 - alpha(t), and the weight in their bound
is -alpha'(t) / (1 - alpha(t)), which is LLaDA's 1 / t; their program keeps t from 0 in the same
way.
"""

import random
from typing import NamedTuple


class Row(NamedTuple):
    """A row that was masked.

    Attributes:
        input_ids: the tokens, some of them masked.
        labels: the original ids at the places of masked tokens, -100 elsewhere.
        share: the probability of a mask.
        weight: of the loss of each masked token.
    """

    input_ids: list[int]
    labels: list[int]
    share: float
    weight: float


def llada(row: list[int], mask_id: int, cut_rate: float, rng: random.Random) -> Row:
    """Mask a row as LLaDA does."""
    if rng.random() < cut_rate:
        row = row[: rng.randint(1, len(row))]
    eps = 1e-3
    share = (1 - eps) * rng.random() + eps
    is_masked = [rng.random() < share for _ in row]
    return _masked(row, is_masked, mask_id, share, 1 / share)


def mdlm(row: list[int], mask_id: int, rng: random.Random) -> Row:
    """Mask a row as MDLM does, whose rows have one length."""
    eps = 1e-3
    time = (1 - eps) * rng.random() + eps
    alpha, slope = 1 - time, -1
    is_masked = [rng.random() < 1 - alpha for _ in row]
    return _masked(row, is_masked, mask_id, 1 - alpha, -slope / (1 - alpha))


def _masked(
    row: list[int], is_masked: list[bool], mask_id: int, share: float, weight: float
) -> Row:
    pairs = list(zip(row, is_masked, strict=True))
    input_ids = [mask_id if masked else token for token, masked in pairs]
    labels = [token if masked else -100 for token, masked in pairs]
    return Row(input_ids, labels, share, weight)

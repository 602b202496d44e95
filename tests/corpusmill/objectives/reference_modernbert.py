"""ModernBERT's masking in plain Python, after `mlm_masking` of its sequence_packer.py.

`bert --draw-each-token` must mask rows with the same distribution (test_weighted_masking.py).

Its program is meant to leave special tokens out, but is not given them: [CLS] and [SEP] are
predicted as all others are, and only padding is not.
"""

import random

IGNORED = -100


def mask_row(
    row: list[int], mask_prob: float, mask_id: int, largest_id: int, rng: random.Random
) -> tuple[list[int], list[int]]:
    """Return the masked row, and its labels, IGNORED where nothing is predicted.

    The program draws random tokens from 0 up to the largest id of its batch.
    """
    masked, labels = list(row), [IGNORED] * len(row)
    for place, token in enumerate(row):
        if rng.random() >= mask_prob:
            continue
        labels[place] = token
        branch = rng.random()
        if branch < 0.8:
            masked[place] = mask_id
        elif branch < 0.9:
            masked[place] = rng.randint(0, largest_id)
    return masked, labels

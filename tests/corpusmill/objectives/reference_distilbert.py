"""DistilBERT's masking in plain Python, after `prepare_batch_mlm` of its project's distiller.py.

`token_weights` of the readers must mask rows with the same distribution
(test_weighted_masking.py). The program draws for the rows of a batch together, here for one row:
batches of a single row are equal.
"""

import math
import random
from collections.abc import Sequence


def token_probs(counts: Sequence[int], special_ids: Sequence[int], smoothing: float) -> list[float]:
    """Return the weight of each id; the program's smoothing is 0.7."""
    weights = [max(count, 1) ** -smoothing for count in counts]
    return [0.0 if token in special_ids else weight for token, weight in enumerate(weights)]


def mask_row(
    row: list[int], weights: Sequence[float], mask_prob: float, mask_id: int, rng: random.Random
) -> tuple[list[int], list[int]]:
    """Return the masked row and the predicted places, drawn without replacement."""
    left = list(range(len(row)))
    places: list[int] = []
    for _ in range(math.ceil(mask_prob * len(row))):
        [place] = rng.choices(left, [weights[row[place]] for place in left])
        left.remove(place)
        places.append(place)
    masked = list(row)
    for place in places:
        share = rng.random()
        if share < 0.8:
            masked[place] = mask_id
        elif share >= 0.9:
            masked[place] = rng.randrange(len(weights))
    return masked, sorted(places)

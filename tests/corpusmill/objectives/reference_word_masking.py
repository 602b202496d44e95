"""Masking of whole words and n-grams in plain Python, written to be read.

After create_masked_lm_predictions of Google's BERT (`do_whole_word_mask`) and of ALBERT (`ngram`,
`favor_shorter_ngram`). The kernels of `corpusmill.objectives.masking.words` draw other random
numbers; their rows must have the same distribution, which test_word_masking_distribution.py checks.

The deliberate differences that `corpusmill.objectives.masking.words` names are made here, too, each
with a remark; with `google` the rows are masked as in these programs.
"""

import random
from collections.abc import Sequence

Word = list[int]  # places of a row


def find_words(
    input_ids: Sequence[int], continues: Sequence[int], special: set[int], google: bool = False
) -> list[list[Word]]:
    """Find the words of each stretch between special tokens.

    Both programs have one list for the whole row, in which the rest of a cut word after a
    [SEP] belongs to the previous word; so is it with `google`.
    """
    stretches: list[list[Word]] = [[]]
    for place, token in enumerate(input_ids):
        if token in special:
            stretches += [] if google else [[]]
        elif continues[place] and stretches[-1]:
            stretches[-1][-1].append(place)
        else:
            stretches[-1].append([place])
    return stretches


def find_ngrams(stretches: list[list[Word]], max_ngram: int) -> list[list[Word]]:
    """List for each word the n-grams that begin there, of 1 to max_ngram words, as ALBERT does.

    Near the end of a stretch the longer ones are the same as the last. ALBERT's continue after
    [SEP].
    """
    return [
        [
            [place for word in words[first : first + n] for place in word]
            for n in range(1, max_ngram + 1)
        ]
        for words in stretches
        for first in range(len(words))
    ]


def choose(
    candidates: list[list[Word]], predictions: int, max_ngram: int, rng: random.Random
) -> set[int]:
    """Choose the places to predict. With max_ngram 1 this is Google's loop over shuffled words."""
    lengths = list(range(1, max_ngram + 1))
    weights = [1 / n for n in lengths]
    rng.shuffle(candidates)
    covered: set[int] = set()
    for ngrams in candidates:
        if len(covered) >= predictions:
            break
        n = rng.choices(lengths, weights)[0]
        while n > 1 and len(covered) + len(ngrams[n - 1]) > predictions:
            n -= 1
        places = ngrams[n - 1]
        if len(covered) + len(places) > predictions:
            continue
        if not covered.isdisjoint(places):
            continue
        covered.update(places)
    return covered


def mask_words(
    input_ids: list[int],
    continues: Sequence[int],
    special: set[int],
    replacement_ids: Sequence[int],
    num_special: int,
    mask_id: int,
    masked_lm_prob: float,
    max_predictions_per_seq: int,
    max_ngram: int,
    rng: random.Random,
    google: bool = False,
) -> tuple[list[int], list[int]]:
    """Mask places of `input_ids`; return the places and the original ids.

    The share is of the tokens that are not special, as in the article; both programs count [CLS]
    and [SEP] too.
    """
    counted = len(input_ids) - (0 if google else num_special)
    predictions = min(max_predictions_per_seq, max(1, round(counted * masked_lm_prob)))
    stretches = find_words(input_ids, continues, special, google)
    positions = sorted(choose(find_ngrams(stretches, max_ngram), predictions, max_ngram, rng))
    labels = [input_ids[place] for place in positions]
    for place in positions:
        if rng.random() < 0.8:
            input_ids[place] = mask_id
        elif rng.random() >= 0.5:
            input_ids[place] = rng.choice(replacement_ids)
    return positions, labels

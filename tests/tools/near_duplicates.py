"""Documents with planted edits, and their near-duplicates in plain Python.

The 30 lines of `list_near_duplicates` are the whole rule, and know nothing of MinHash.
"""

import random
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

import regex

# Characters of scripts without spaces, which are words of their own.
_ALONE = regex.compile(r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}]")

Removed = dict[int, tuple[int, float]]


def plant_edits(paragraphs: Sequence[str], number: int, seed: int = 0) -> list[str]:
    """Return documents, half of which are others with 0 to 40 % of their words edited."""
    draw, texts = random.Random(seed), list[str]()  # noqa: S311
    words = sorted({word for text in paragraphs for word in text.split()})
    while len(texts) < number:
        if draw.random() < 0.45 or len(texts) < 10:
            texts.append(" ".join(draw.choices(paragraphs, k=draw.choice([1, 1, 2, 3]))))
            continue
        share = draw.choice([0, 0.005, 0.01, 0.02, 0.03, 0.04, 0.05, 0.08, 0.2, 0.4])
        edited = list[str]()
        for word in draw.choice(texts[-3000:]).split():
            new: list[list[str]] = [[draw.choice(words)], [], [word, draw.choice(words)]]
            edited += draw.choice(new) if draw.random() < share else [word]
        texts.append(" ".join(edited) or "empty")
    draw.shuffle(texts)
    return texts


def runs_of(text: str, ngram: int = 5) -> set[tuple[str, ...]]:
    """Return the set of the runs of words of a text."""
    spaced = _ALONE.sub(r" \g<0> ", text.lower())
    kept = (one for one in spaced if one.isspace() or unicodedata.category(one)[0] in "LMN")
    words = "".join(kept).split()
    length = min(ngram, len(words))
    return (
        {tuple(words[n : n + length]) for n in range(len(words) - length + 1)} if words else set()
    )


def list_pairs(texts: Mapping[int, str], least: float) -> dict[int, list[tuple[int, float]]]:
    """Return, for each document by its id, the earlier ones that are like it."""
    sets, holders = dict[int, set[tuple[str, ...]]](), defaultdict[tuple[str, ...], list[int]](list)
    pairs = dict[int, list[tuple[int, float]]]()
    for document, text in sorted(texts.items()):
        own, common = runs_of(text), Counter[int]()
        for run in own:
            common.update(holders[run])
            holders[run].append(document)
        sets[document] = own
        shares = ((other, n / (len(own) + len(sets[other]) - n)) for other, n in common.items())
        pairs[document] = sorted((other, share) for other, share in shares if share >= least)
    return pairs


def list_near_duplicates(texts: Mapping[int, str], least: float) -> Removed:
    """Return the documents that are removed, each with its keeper and their similarity."""
    removed: Removed = {}
    for document, like in list_pairs(texts, least).items():
        keepers = [pair for pair in like if pair[0] not in removed]
        if keepers:
            removed[document] = keepers[0]
    return removed

"""Examples drawn at random from all shards of a data set, and decoded."""

from collections import Counter
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from corpusmill.dataset.manifest import Manifest
from corpusmill.dataset.shards import damaged_file, read_shard
from corpusmill.dataset.storage import Folder
from corpusmill.errors import in_one_line
from corpusmill.inspection.decoded_examples import DecodedExample, decode_examples


@dataclass(frozen=True)
class DrawnExample:
    """An example, and where it stands.

    Attributes:
        split: name of its split.
        shard: name of its shard.
        row: its number in the shard, from 0.
        example: what it says.
    """

    split: str
    shard: str
    row: int
    example: DecodedExample


def draw_examples(
    folder: Folder, manifest: Manifest, tokenizer_json: str, split: str, number: int
) -> list[DrawnExample]:
    """Draw examples of a split, each example with the same probability.

    The shards are drawn, in proportion to their rows, by the seed of the data set, so that the same
    data set shows the same examples. Of each drawn shard the first rows are taken: they stand in
    random order, and no format needs to read further than these.

    Args:
        folder: of the data set.
        manifest: of the data set.
        tokenizer_json: content of the data set's tokenizer.
        split: name of the split.
        number: how many examples; all of them if there are fewer.

    Raises:
        UserError: a shard is damaged.
    """
    shards = manifest.splits[split].shards
    ends = np.cumsum([shard.rows for shard in shards])
    total = int(ends[-1])
    draws = _draw(total, min(number, total), manifest.seed)
    homes = np.searchsorted(ends, draws, side="right").tolist()
    rows = {
        home: iter(_read_first(folder, manifest, tokenizer_json, shards[home].file, count))
        for home, count in Counter(homes).items()
    }
    taken = Counter[int]()
    drawn = []
    for home in homes:
        if (example := next(rows[home], None)) is not None:
            drawn.append(DrawnExample(split, shards[home].file, taken[home], example))
            taken[home] += 1
    return drawn


def _draw(total: int, number: int, seed: int) -> npt.NDArray[np.int64]:
    """Draw different numbers below a total, of which fewer are the first ones of more."""
    generator, drawn = np.random.default_rng(seed), np.zeros(0, np.int64)
    while len(drawn) < number:
        more = (generator.random(number) * total).astype(np.int64)
        drawn = np.concatenate([drawn, more])
        drawn = drawn[np.sort(np.unique(drawn, return_index=True)[1])]
    return drawn[:number]


def _read_first(
    folder: Folder, manifest: Manifest, tokenizer_json: str, shard: str, number: int
) -> list[DecodedExample]:
    """Decode the first rows of a shard."""
    special = manifest.tokenizer.special
    decoded = list[DecodedExample]()
    try:
        for batch in read_shard(folder, manifest, shard, number):
            some = batch.slice(0, number - len(decoded))
            decoded += decode_examples(some, manifest.columns, tokenizer_json, special)
            if len(decoded) == number:
                break
    except Exception as error:  # rows that are not what the manifest says fail in many ways
        cause = f"its rows cannot be shown ({in_one_line(error)})"
        raise damaged_file(folder, shard, cause) from error
    return decoded

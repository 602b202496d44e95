"""The options of a sample: what they refuse, and sizes with units."""

from typing import Any

import pytest

from corpusmill.corpus.document_options import DocumentOptions
from corpusmill.errors import UserError
from pipeline.commands.train_tokenizer import SampleOptions
from pipeline.jobs.word_counting import SampledCorpus
from pipeline.recipe.inputs import InputFile
from tests.tools.table_rows import for_rows


@for_rows(
    ("wrong", "message"),
    [
        ({"sample": 0.0}, "--sample 0"),
        ({"sample": 1.5}, "--sample 1.5"),
        ({"sample": float("nan")}, "--sample nan"),
        ({"sample_bytes": 0}, "--sample-bytes 0"),
        ({"sample_bytes": "7XB"}, "--sample-bytes 7XB"),
        ({"sample": 0.5, "sample_bytes": 9}, "--sample 0.5: it does not go with --sample-bytes 9"),
        ({"seed": -1}, "--seed -1"),
    ],
)
def test_impossible_samples_are_refused(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        SampleOptions(**wrong)


@for_rows("size", [2_000_000, "2000000", "2MB", "2 mb"])
def test_sizes_of_samples_have_units_or_none(size: int | str) -> None:
    assert SampleOptions(sample_bytes=size).bytes == 2_000_000


@for_rows(
    ("wanted", "piece"),
    [(2**24 - 256, 2**16), (2**24, 2**16), (2**25, 2**17), (2**32, 2**24), (2**33, 2**24)],
)
def test_a_sample_has_256_pieces_within_bounds(wanted: int, piece: int) -> None:
    file = InputFile("/a.txt", 1024 * piece, "a.txt")
    sample = SampleOptions(sample_bytes=wanted)
    corpus = SampledCorpus([file], DocumentOptions(input_format="text"), sample)
    drawn = corpus.draw().ranges
    assert {part.end - part.start for part in drawn if part.end is not None} == {piece}

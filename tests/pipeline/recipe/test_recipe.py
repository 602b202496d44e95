"""What is derived from the size of the input: shards, work and ranges."""

from dataclasses import replace

import pytest

from corpusmill.corpus.document_options import DocumentOptions
from corpusmill.formats.output_options import OutputOptions
from corpusmill.objectives.bert import BertOptions
from corpusmill.tokenization.tokenizer_file import TokenizerFile
from pipeline.assembly import choose_range_bytes
from pipeline.job_options import CorpusOptions, RunOptions
from pipeline.recipe.inputs import InputFile
from pipeline.recipe.recipe import Recipe
from pipeline.runners.local.engine import LocalEngine

_FILE = InputFile("/corpus.txt", 640 * 10**6, "corpus.txt")


@pytest.mark.parametrize(
    ("document_bytes", "shards", "work_bytes"),
    [(0, 2, 640), (1000, 2, 640), (64, 2, 640), (32, 4, 1280), (6.4, 20, 6400)],
)
def test_tiny_documents_make_more_shards_and_work(
    document_bytes: float, shards: int, work_bytes: int, tokenizer: TokenizerFile
) -> None:
    recipe = Recipe(
        CorpusOptions(tokenizer="t"), BertOptions(duplicates=1), tokenizer,
        DocumentOptions(input_format="text"), OutputOptions(), [_FILE],
        document_bytes=document_bytes,
    )  # fmt: skip
    assert recipe.layout.train_shards == shards
    assert recipe.work_bytes == work_bytes * 10**6
    engine = LocalEngine(RunOptions(workers=2))
    range_bytes = choose_range_bytes(recipe, engine)
    of_usual_documents = choose_range_bytes(replace(recipe, document_bytes=0.0), engine)
    assert range_bytes * work_bytes == pytest.approx(640 * of_usual_documents, rel=0.001)
    assert choose_range_bytes(recipe, LocalEngine(RunOptions(range_bytes=10**6))) == 10**6

from pathlib import Path

import apache_beam as beam
import numpy as np
import pyarrow as pa

from corpusmill.bert import Bert, BertOptions
from corpusmill.placement import assign_splits
from corpusmill.pool import ARRAYS, Pool
from tests.corpusmill.builders import SPECIAL, batch_of, numbered_corpus, pool_of
from tests.transforms.local_pipeline import collect, local_pipeline, sums
from transforms.build import EXAMPLES, BuildExamples
from transforms.tally import COUNTS

BERT = Bert(BertOptions(max_seq_length=24, duplicates=3), SPECIAL, 2000, "int16")
CORPUS = numbered_corpus([[3 + place % 5, 4, 7, 2] for place in range(40)])
SEED, SHARE = 5, 0.25


def save(pool: Pool, folder: Path) -> str:
    for name in ARRAYS:
        np.save(folder / f"{name}.npy", getattr(pool, name))
    return str(folder)


def test_each_repeat_is_what_the_library_builds(tmp_path: Path) -> None:
    whole = batch_of(CORPUS)
    in_train = assign_splits(SEED, whole.column("document").to_numpy(), SHARE) == 0
    pool = pool_of(
        {document: CORPUS[document] for document in CORPUS if in_train[document]},
        {document: CORPUS[document] for document in CORPUS if not in_train[document]},
    )
    batches = [whole.slice(0, 13), whole.slice(13, 1), whole.slice(14)]
    with local_pipeline() as pipeline:
        path = pipeline | "Pool" >> beam.Create([save(pool, tmp_path)])
        documents = pipeline | "Documents" >> beam.Create(batches, reshuffle=False)
        built = documents | BuildExamples(BERT, SEED, SHARE, path)
        examples, counts = collect(built[EXAMPLES]), collect(built[COUNTS])
    expected = [
        BERT.build(
            batch,
            repeat,
            pool,
            assign_splits(SEED, batch.column("document").to_numpy(), SHARE),
            SEED,
        )
        for batch in batches
        for repeat in range(3)
    ]
    identity = [("document", "ascending"), ("repeat", "ascending"), ("index", "ascending")]
    given = pa.Table.from_batches(examples).sort_by(identity)
    assert given.equals(pa.Table.from_batches(expected).sort_by(identity))
    assert given.column("next_sentence_label").to_pylist().count(1) > 20
    assert sums(counts) == {"build.documents": 40, "build.examples": given.num_rows}

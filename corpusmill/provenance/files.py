"""The table of the files of a corpus, by the number that the ids of documents begin with."""

import io

import pyarrow as pa
import pyarrow.parquet as pq

from corpusmill.dataset.corpus_entry import CorpusEntry

SCHEMA = pa.schema(
    [
        ("number", pa.uint32()),
        ("file", pa.string()),
        ("bytes", pa.uint64()),
        ("source", pa.string()),
    ]
)


def write_files(corpus: CorpusEntry) -> bytes:
    """Return the table of a corpus: the files in their order, and the source of each.

    The source is null where no part of the corpus has a name.
    """
    names = {source.name for source in corpus.sources}
    paths = [file.path for file in corpus.files]
    columns = [
        pa.array(range(len(paths)), pa.uint32()),
        pa.array(paths, pa.string()),
        pa.array([file.bytes for file in corpus.files], pa.uint64()),
        pa.array([path.partition("/")[0] if names else None for path in paths], pa.string()),
    ]
    sink = io.BytesIO()
    pq.write_table(pa.table(columns, schema=SCHEMA), sink, compression="zstd")
    return sink.getvalue()

"""A pipeline of one's own, made of the job's transforms: how long are the documents of a corpus?

    python examples/document_lengths.py --input 'corpus/*.txt' --tokenizer tokenizer.json \
        --output lengths

It reads and tokenizes as a build does, counts the documents by their length in tokens, rounded up
to a power of two, and writes a line for each length. Further options are Beam's:
--runner=FlinkRunner, for example.
"""

import argparse
from collections.abc import Iterator, Sequence

import apache_beam as beam
import numpy as np
import pyarrow as pa
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.portability.fn_api_runner import FnApiRunner

from corpusmill.extending import DocumentOptions
from transforms import DOCUMENTS, REJECTS, ReadDocuments, TokenizeDocuments


class CountLengths(beam.DoFn):
    """Count the documents of a batch by length: (length, documents)."""

    def process(self, element: pa.RecordBatch) -> Iterator[tuple[int, int]]:
        """Count one batch, with NumPy and not document by document."""
        sentences = element.column("sentences")
        # The offsets of documents into sentences lead to those of sentences into tokens.
        ends = sentences.values.offsets.to_numpy()[sentences.offsets.to_numpy()]
        powers = 2 ** np.ceil(np.log2(np.diff(ends))).astype(int)
        for length, documents in zip(*np.unique(powers, return_counts=True), strict=True):
            yield int(length), int(documents)


class MeasureLengths(beam.PTransform):
    """Batches of tokenized documents to (length, number of documents)."""

    def expand(self, documents: beam.PCollection[pa.RecordBatch]) -> beam.PCollection:
        """Count within batches, and then add up."""
        counted = documents | beam.ParDo(CountLengths()).with_output_types(tuple[int, int])
        return counted | beam.CombinePerKey(sum)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the pipeline."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--input", nargs="+", required=True)
    parser.add_argument("--tokenizer", required=True)
    parser.add_argument("--output", required=True)
    own, rest = parser.parse_known_args(arguments)
    options = PipelineOptions(rest)
    # DirectRunner, which Beam takes by default, would look for another runner on the internet.
    runner = options.get_all_options(drop_default=True).get("runner") or FnApiRunner()
    with beam.Pipeline(runner=runner, options=options) as pipeline:
        read = pipeline | ReadDocuments(own.input, DocumentOptions(document_rule="wikitext"))
        lengths = read[DOCUMENTS] | TokenizeDocuments(own.tokenizer) | MeasureLengths()
        lines = lengths | beam.MapTuple("up to {} tokens: {} documents".format)
        _ = lines | beam.io.WriteToText(own.output, ".txt", num_shards=1)
        _ = read[REJECTS] | beam.Map(print)


if __name__ == "__main__":
    main()

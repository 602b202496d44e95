"""Words counted for `train-tokenizer` in this process, without Beam, and what was counted in words.

A corpus that is too small for worker processes is counted here, because Beam takes a second to
import; `counting_job` counts all others.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from corpusmill.corpus.decompression import open_decompressed
from corpusmill.corpus.file_range import FileRange
from corpusmill.corpus.input_formats import read_corpus
from corpusmill.dataset.accounting import count_reasons
from corpusmill.errors import UserError
from corpusmill.tokenization.training.counted_words import CountedWords, read_words
from corpusmill.tokenization.training.models import MODELS
from corpusmill.tokenization.training.options import TrainingOptions
from corpusmill.tokenization.training.sample import draw_documents
from pipeline.commands.sampled_corpus import SampledCorpus
from pipeline.console.progress import ReadingLine
from transforms.storage.files import open_file


class Counted(NamedTuple):
    """What was counted.

    Attributes:
        counts: the counts of all stages.
        words: the words.
    """

    counts: Mapping[str, int]
    words: CountedWords


def count_here(
    corpus: SampledCorpus, model: str, options: TrainingOptions, line: ReadingLine
) -> Counted:
    """Count the words of a corpus in this process.

    Args:
        corpus: the corpus.
        model: the model that is trained.
        options: its options.
        line: shows the bytes that are read.
    """
    counter, counts = MODELS[model].make_counter(options), Counter[str]()
    ranges, share = corpus.draw()
    for path, name, index, start, end in ranges:
        with open_file(path) as raw:
            stream = open_decompressed(raw, path)
            part = FileRange(name, index, corpus.documents, start, end)
            for batch in read_corpus(stream, part):
                line.add(batch.counts.bytes)
                documents = batch.documents
                if share < 1:
                    ids = documents.column("document").to_numpy()
                    documents = documents.filter(draw_documents(ids, share, corpus.sample.seed))
                counts.update({f"read.{name}": n for name, n in vars(batch.counts).items()})
                refused = batch.count_rejects().items()
                counts.update({f"read.rejects.{reason}": n for reason, n in refused})
                counts["count.documents"] += documents.num_rows
                counter.add(documents.column("sentences").flatten())
    words = read_words(counter, options.word_limits)
    counts["total.distinct_words"] = len(counter.table)
    return Counted(counts, words)


def check_sample(counted: Counted, corpus: SampledCorpus) -> None:
    """Refuse a corpus, or a sample, without documents.

    Raises:
        UserError: it has none.
    """
    documents = counted.counts.get("read.documents", 0)
    if not documents:
        raise _refuse_all(counted.counts)
    if not counted.counts.get("count.documents"):
        sample = corpus.sample
        flag = f"--sample {sample.sample}"
        if sample.sample is None:
            flag = f"--sample-bytes {sample.sample_bytes}"
        cause = f"the sample has none of the {documents:,} documents"
        raise UserError(flag, cause, "Give a larger value")


def describe_sample(counted: Counted, corpus: SampledCorpus) -> Iterator[str]:
    """Describe the parts of a corpus that are not counted, and the words that are not kept."""
    counts = counted.counts
    sampled, documents = counts["count.documents"], counts["read.documents"]
    if corpus.is_in_pieces:
        read, whole = counts["read.bytes"] / 1e6, corpus.bytes / 1e6
        yield f"a sample: {sampled:,} documents, from {read:,.1f} of {whole:,.1f} MB"
    elif corpus.sample.sample is not None:
        yield f"a sample: {sampled:,} of {documents:,} documents"
    trained, distinct = len(counted.words.counts), counts.get("total.distinct_words", 0)
    if trained < distinct:
        limits = "--max-distinct-words and --max-distinct-bytes"
        yield f"trained on {trained:,} of {distinct:,} distinct words, the most frequent ({limits})"
    if rejects := _list_rejects(counts):
        yield f"left out because they cannot be read: {rejects}"


def _list_rejects(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {reason}" for reason, count in count_reasons(counts).items())


def _refuse_all(counts: Mapping[str, int]) -> UserError:
    units = counts.get("read.lines", 0) + counts.get("read.rows", 0)
    listed = _list_rejects(counts)
    rejects = f", of which these cannot be read: {listed}" if listed else ""
    cure = "The input holds only blank lines and titles: check --input and --document-rule"
    if listed:
        cure = "Repair the input, or check --input-format and --text-field"
    cause = f"it has no text to train with: {units:,} lines and rows were read{rejects}"
    return UserError("--input", cause, cure)

"""What makes a data set exact but of little use: each with the cause, and the option that cures it.

Findings follow from the manifest alone: from its counts, its distributions, the roles of its
columns and its rules, never from the name of an objective. A data set without findings may still be
bad; one with findings almost always is.
"""

from collections import Counter
from collections.abc import Iterator
from statistics import median

from corpusmill.arrays.columns import Role, column_of
from corpusmill.dataset.distributions import weigh
from corpusmill.dataset.manifest import Manifest
from corpusmill.inspection.facts import FEWEST_ROWS, Facts
from corpusmill.inspection.input_findings import check_cut_documents, check_rejects
from corpusmill.inspection.usual_values import USUAL, Finding, percent

__all__ = ["USUAL", "Finding", "find"]

# A file of fewer bytes is read by one worker in a minute, however unequal the others are.
_LARGE_BYTES = 2**28
# Compressed files, which one worker reads from their beginning to their end.
_COMPRESSED = (".gz", ".bz2", ".zst", ".xz", ".tgz", ".tbz2", ".txz", ".tzst")


def find(manifest: Manifest) -> tuple[Finding, ...]:
    """Find what makes a data set of little use.

    Args:
        manifest: with counts and splits; shards and files may be missing, if it is an estimate.

    Returns:
        The findings, those that usually cause others first.
    """
    facts = Facts(manifest)
    found = (check(facts) for check in _CHECKS)
    return tuple(finding for findings in found for finding in findings)


def _check_documents(facts: Facts) -> Iterator[Finding]:
    if facts.lacks_pairs:
        value = facts.sentences_per_document
        what = f"A document has {value:.2f} sentences, but an example is made of two segments"
        usual = USUAL["sentences per document"].shown
        yield Finding("sentences per document", what, value, usual, *facts.explain_sentences())


def _check_classes(facts: Facts) -> Iterator[Finding]:
    usual = USUAL["balance"]
    for column in facts.manifest.columns:
        counts = facts.distributions.get(column.name, Counter[int]())
        rows = sum(counts.values())
        if column.role is not Role.CLASS or len(column.value_names) != 2 or rows < FEWEST_ROWS:
            continue
        share = counts.get(1, 0) / rows
        if usual.low <= share <= usual.high:
            continue
        name = f"{column.value_names[1]} {column.title}"
        cause, cure = facts.explain_sentences()
        if not facts.lacks_pairs:
            cause = "Few documents are long enough for a second segment of their own"
        if share < usual.low:
            cause = "There is hardly another document to draw a segment from"
            cure = "Give more documents, or another --document-rule"
        what = f"{percent(share)} of the examples have the class: {name}"
        yield Finding(name, what, share, usual.shown, cause, cure)


def _check_long_sentences(facts: Facts) -> Iterator[Finding]:
    share = facts.count("build.long_sentences") / max(1, facts.sentences * facts.passes)
    usual = USUAL["long sentences"]
    if share > usual.high and facts.trimmed_share:
        what = f"{percent(share)} of the sentences are longer than a row and are cut off"
        yield Finding("long sentences", what, share, usual.shown, *facts.explain_sentences())


def _check_coverage(facts: Facts) -> Iterator[Finding]:
    value, usual = 1 - facts.trimmed_share, USUAL["coverage"]
    if value < usual.low:
        what = f"{percent(value)} of the corpus' tokens stand in an example; the others are cut off"
        cause, cure = facts.explain_sentences()
        if facts.rules.get("sentence_rule") == "split":
            cause, cure = "Rows are short beside sentences", "Give a larger --max-seq-length"
        if facts.rules.get("sentence_rule") == "document":
            cause = "Of a document that is too long, one piece is taken in each pass"
            cure = "Give --overflow keep, or cut documents with --max-document-bytes"
        yield Finding("coverage", what, value, usual.shown, cause, cure)


def _check_padding(facts: Facts) -> Iterator[Finding]:
    width = facts.manifest.columns[0].width
    lengths = facts.distributions.get("length", Counter[int]())
    rows = sum(lengths.values())
    tokens = sum(length * number for length, number in lengths.items())
    shards = [shard for split in facts.manifest.splits.values() for shard in split.shards]
    binned = sum(shard.rows * (shard.max_length or 0) for shard in shards)
    places, usual = binned or rows * width, USUAL["padding"]
    if width <= 0 or rows < FEWEST_ROWS or 1 - tokens / places <= usual.high:
        return
    share = 1 - tokens / places
    what = f"{percent(share)} of the positions are padding, if every row is padded to its width"
    mean = tokens / rows
    cause = f"A row of {width:,} places holds {mean:,.0f} tokens on average"
    cure = "Give a smaller --max-seq-length, or group rows of similar lengths with --bin-size"
    if facts.lacks_pairs:
        explained, cure = facts.explain_sentences()
        cause += f". {explained}"
    yield Finding("padding", what, share, usual.shown, cause, cure)


def _check_predictions(facts: Facts) -> Iterator[Finding]:
    predictions = facts.distributions.get("predictions", Counter[int]())
    lengths = facts.distributions.get("length", Counter[int]())
    cap, prob = facts.options.get("max_predictions_per_seq"), facts.options.get("masked_lm_prob", 0)
    if not (predictions and lengths and isinstance(cap, int) and isinstance(prob, int | float)):
        return
    usual, wanted = USUAL["capped"], prob * weigh(lengths)
    share = weigh(predictions) / wanted if wanted else 1.0
    if share < usual.low and max(predictions) == cap:
        what = f"Examples have {percent(share)} of the predictions that --masked-lm-prob asks for"
        capped = predictions[cap] / sum(predictions.values())
        cause = f"{percent(capped)} of the examples have {cap} predictions, the most allowed"
        cure = f"Give --max-predictions-per-seq {round(max(lengths) * prob)}"
        yield Finding("capped predictions", what, share, usual.shown, cause, cure)


def _check_tokenizer(facts: Facts) -> Iterator[Finding]:
    name = facts.manifest.tokenizer.name
    share, usual = facts.count("tokenize.unknown_tokens") / max(1, facts.tokens), USUAL["unknown"]
    train = "Give a tokenizer of the text's language, or train one with train-tokenizer"
    if share > usual.high:
        what = f"{percent(share)} of the tokens are unknown ([UNK])"
        cause = f"The vocabulary of {name} cannot spell the text"
        yield Finding("unknown tokens", what, share, usual.shown, cause, train)
    size, usual = facts.count("tokenize.text_bytes"), USUAL["tokens per byte"]
    value = facts.tokens / size if size else 0.0
    if value > usual.high:
        what = f"A byte of text gives {value:.2f} tokens"
        tokens = f"The {facts.manifest.tokenizer.vocab_size:,} tokens of {name}"
        cause = f"{tokens} are too few, or those of another language"
        yield Finding("tokens per byte", what, value, usual.shown, cause, train)


def _check_copies(facts: Facts) -> Iterator[Finding]:
    copies, rows = facts.equal_share("tokenize", "passages"), facts.equal_share("write", "rows")
    usual = USUAL["copies"]
    if copies > usual.high:
        what = f"{percent(copies)} of the text is copies of other documents or their beginnings"
        cause = "Texts stand in the corpus more than once, such as mirrors, forms or notices"
        cure = "Remove the copies before the build; with them, validation holds texts of training"
        yield Finding("copies", what, copies, usual.shown, cause, cure)
    usual = USUAL["equal rows"]
    # Rows that are equal because the text is are not found a second time.
    if 1 - rows < (1 - usual.high) * (1 - copies):
        what = f"{percent(rows)} of the examples are equal to others"
        yield Finding("equal rows", what, rows, usual.shown, *_explain_equal_rows(facts))


def _explain_equal_rows(facts: Facts) -> tuple[str, str]:
    passes = facts.repeats
    if passes == 1:
        return "Documents repeat parts of one another", "Remove these parts before the build"
    predicted = (Role.POSITIONS, Role.TARGET_IDS)
    if not any(column_of(facts.manifest.columns, role) for role in predicted):
        cause = f"Rows that are masked when they are loaded are equal in several of {passes} passes"
        return cause, "Give fewer --duplicates, such as 1: each epoch draws other masks"
    cause = f"An example of few tokens is masked in the same way in several of {passes} passes"
    return cause, "Give fewer --duplicates, or join short texts"


def _check_sizes(facts: Facts) -> Iterator[Finding]:
    for name, split in facts.manifest.splits.items():
        groups: dict[int | None, list[int]] = {}
        for shard in split.shards:
            groups.setdefault(shard.bin, []).append(shard.bytes)
        for sizes in groups.values():
            yield from _check_largest(
                sizes,
                f"shard of {name}",
                "One document has most of the text",
                "Cut documents shorter with --max-document-bytes, or write fewer --num-shards",
            )
    files = facts.manifest.corpus.files
    if any(file.path.endswith(_COMPRESSED) for file in files):
        yield from _check_largest(
            [file.bytes for file in files],
            "file of the corpus",
            "A compressed file is read by one worker, from its beginning to its end",
            "Divide the file, or decompress it",
        )


def _check_largest(sizes: list[int], name: str, cause: str, cure: str) -> Iterator[Finding]:
    largest, usual = max(sizes, default=0), USUAL["largest file"]
    if len(sizes) < 2 or largest < _LARGE_BYTES:
        return
    value = largest / max(1, median(sizes))
    if value > usual.high:
        what = f"The largest {name} has {largest:,} bytes, {value:.1f} times the median"
        yield Finding(f"largest {name}", what, value, usual.shown, cause, cure)


def _check_validation(facts: Facts) -> Iterator[Finding]:
    share, usual = facts.manifest.output.validation_share, USUAL["validation rows"]
    split = facts.manifest.splits.get("validation")
    rows = split.rows if split else 0
    if share and rows < usual.low:
        what = f"The validation split has {rows:,} examples"
        documents = facts.count("tokenize.documents")
        cause = f"--validation-share {share:g} of {documents:,} documents is few"
        cure = "Give a larger --validation-share, or more and shorter documents"
        yield Finding("validation rows", what, rows, usual.shown, cause, cure)


_CHECKS = (
    check_rejects,
    check_cut_documents,
    _check_tokenizer,
    _check_documents,
    _check_long_sentences,
    _check_coverage,
    _check_classes,
    _check_padding,
    _check_predictions,
    _check_copies,
    _check_sizes,
    _check_validation,
)

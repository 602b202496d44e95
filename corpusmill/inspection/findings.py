"""Findings: what makes a data set of little use, judged by its figures.

Findings follow from the manifest alone: from its counts, its distributions, the roles of its
columns and its rules, never from the name of an objective. A data set without findings may still be
bad; one with findings almost always is.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import median
from typing import Any, NamedTuple

from corpusmill.arrays.columns import Role, column_of
from corpusmill.corpus.document_options import DocumentOptions
from corpusmill.dataset.accounting import count_copied_tokens, count_copies, measure_rejects
from corpusmill.dataset.manifest import Manifest
from corpusmill.dataset.manifest_entries import weigh
from corpusmill.errors import Spelling, as_flag, option, spell


class Range(NamedTuple):
    """The values of a quantity that are not reported.

    Attributes:
        low: the smallest one.
        high: the largest one.
        shown: the range in words.
        reason: why it ends there.
    """

    low: float
    high: float
    shown: str
    reason: str


_ANY = float("inf")
USUAL = {
    "coverage": Range(
        0.6, 1, "80 % and more", "WikiText has 82 to 97 %, with lines longer than rows 50 %"
    ),
    "sentences per document": Range(
        2, _ANY, "2 and more", "a document of one sentence has no second segment of its own"
    ),
    "balance": Range(
        0.25, 0.75, "45 to 70 %", "drawn with 50 %; the sections of WikiText, of 3 lines, give 67 %"
    ),
    "long sentences": Range(
        0, 0.05, "up to 5 %", "real sentences have 10 to 60 tokens, and rows 128 to 512"
    ),
    "padding": Range(
        0, 0.7, "up to 65 %", "the paragraphs of WikiText have 65 % in rows of 512; books had 76 %"
    ),
    "capped": Range(
        0.25, 1, "a quarter and more", "the article's own 20 predictions of 512 tokens are 26 %"
    ),
    "unknown": Range(
        0, 0.01, "up to 1 %", "vocabularies of the corpus' own language leave less than 0.1 %"
    ),
    "tokens per byte": Range(
        0,
        0.45,
        "0.1 to 0.4",
        "English has 0.22 and Chinese 0.33; a vocabulary of another language spells letters",
    ),
    "copies": Range(
        0, 0.1, "up to 3 %", "books and WikiText have 0 to 2 %, in passages of 32 tokens"
    ),
    "equal rows": Range(
        0, 0.3, "up to 15 %", "ten passes over the short sections of WikiText give 14 % in pairs"
    ),
    "largest file": Range(
        0, 4, "up to 4 times the median", "hashing spreads documents evenly; one worker gets a file"
    ),
    "validation rows": Range(
        100, _ANY, "100 and more", "the loss of fewer rows is too noisy to compare models by"
    ),
    "rejects": Range(
        0, 0.01, "up to 1 %", "clean corpora have none, crawled ones some in a million"
    ),
    "cut documents": Range(
        0, 0.01, "up to 1 %", "16 MB are the text of ten thick books; hardly a document has more"
    ),
}


@dataclass(frozen=True)
class Finding:
    """One thing that makes a data set of little use.

    Attributes:
        name: of the quantity.
        what: what was found, a sentence without its end.
        value: the quantity; a share is between 0 and 1.
        usual: the range in which it usually lies, in words.
        cause: why it is so, most likely; a sentence without its end.
        cure: what to do; likewise.
    """

    name: str
    what: str
    value: float
    usual: str
    cause: str
    cure: str

    def __str__(self) -> str:
        return f"{self.what} (usually {self.usual}). {self.cause}. {self.cure}."

    def spelled(self, spelling: Spelling) -> "Finding":
        """Return the finding as what shows it spells options."""
        what, cause, cure = (spell(text, spelling) for text in (self.what, self.cause, self.cure))
        return replace(self, what=what, cause=cause, cure=cure)


def percent(share: float) -> str:
    """Return a share as it stands in findings: 0.123 gives "12.3 %"."""
    return f"{100 * share:.1f} %"


# With fewer rows a share may be far from its expectation by chance.
FEWEST_ROWS = 50


@dataclass(frozen=True)
class Facts:
    """What findings are made from.

    Attributes:
        manifest: with counts and splits; shards and files may be missing, if it is an estimate.
        spelling: how options are spelled; None leaves that to what shows the findings.
    """

    manifest: Manifest

    def count(self, name: str) -> int:
        """The count of this name; 0 where there is none."""
        return self.manifest.counts.get(name, 0)

    @cached_property
    def distributions(self) -> dict[str, Counter[int]]:
        """The distributions of all splits together."""
        sums: dict[str, Counter[int]] = {}
        for split in self.manifest.splits.values():
            for name, counts in split.distributions.items():
                sums.setdefault(name, Counter()).update(counts)
        return sums

    @property
    def options(self) -> Mapping[str, Any]:
        """The options of the objective."""
        return self.manifest.objective.options

    @property
    def rules(self) -> Mapping[str, Any]:
        """The options of the corpus."""
        return self.manifest.corpus.options

    @property
    def tokens(self) -> int:
        """Tokens of all documents."""
        return self.count("tokenize.tokens")

    @property
    def sentences(self) -> int:
        """Sentences with tokens."""
        kept = self.count("read.sentences") - self.count("filter.dropped_sentences")
        return kept - self.count("tokenize.empty_sentences")

    @property
    def sentences_per_document(self) -> float:
        """Their mean number."""
        return self.sentences / max(1, self.count("tokenize.documents"))

    @property
    def trimmed_share(self) -> float:
        """Share of the tokens that stand in no row of a pass; 0 where it is not counted."""
        tokens = count_copied_tokens(self.manifest.counts) * self.repeats
        return self.count("build.trimmed_tokens") / max(1, tokens)

    @property
    def passes(self) -> float:
        """How many times each document was built, on average over all sources."""
        documents = max(1, self.count("tokenize.documents"))
        return self.repeats * count_copies(self.manifest.counts) / documents

    def equal_share(self, stage: str, name: str) -> float:
        """Share of the rows or passages that are equal to an earlier one.

        0 where it was not counted, or for so few that chance decides.
        """
        total = self.count(f"{stage}.{name}")
        distinct = self.manifest.counts.get(f"{stage}.distinct_{name}", total)
        return 1 - distinct / total if total >= FEWEST_ROWS else 0.0

    @property
    def repeats(self) -> int:
        """How many times each document was built."""
        return max(1, self.manifest.objective.repeats)

    @property
    def has_pairs(self) -> bool:
        """Whether a row has two segments."""
        return column_of(self.manifest.columns, Role.SEGMENTS) is not None

    @property
    def lacks_pairs(self) -> bool:
        """Whether rows of two segments are made of documents of one sentence."""
        reads_sentences = self.rules.get("sentence_rule") != "document"
        return reads_sentences and self.has_pairs and 0 < self.sentences_per_document < 2

    def explain_sentences(self) -> tuple[str, str]:
        """Why sentences are too long or documents have too few of them, and what cures it."""
        rules = self.rules
        is_text = rules.get("input_format", "text") in {"auto", "text"}
        rule = rules.get("document_rule")
        ends_at_blanks = is_text and rule in {None, "wikitext", "blank-lines"}
        if rules.get("sentence_rule") == "split":
            cause = "Sentences are split, but the documents are short"
            if ends_at_blanks:
                return cause, f"Add {option('document_rule', 'whole-file')} if a file is one text"
            return cause, "Join the records of one text, or choose examples without pairs"
        cause = "Each line is taken for a sentence, but a line of running text is a paragraph"
        cure = (
            f"Add {option('sentence_rule', 'split')} {option('language', 'en')}, or "
            "the code of the text's language"
        )
        if ends_at_blanks and self.lacks_pairs:
            cause += f", and an empty line ends a document ({option('document_rule', rule)})"
            cure += f", and {option('document_rule', 'whole-file')} if a file is one text"
        return cause, cure


def check_rejects(facts: Facts) -> Iterator[Finding]:
    """Find rejects that are much of the records, of the bytes or of the files."""
    loss = measure_rejects(facts.manifest.counts, len(facts.manifest.corpus.files))
    usual = USUAL["rejects"]
    if loss.share > usual.high:
        what = f"{percent(loss.share)} of the {loss.unit} {loss.verb}"
        cause = "They are damaged, or not of the format or the encoding that was read"
        if loss.unit == "bytes":
            cause = (
                f"Lines or texts above {option('max_line_bytes')}, or damaged files or "
                "blocks, have them"
            )
        cure = (
            f"Look into rejects/rejects.jsonl, and choose {option('input_format')} "
            "or repair the input"
        )
        yield Finding("rejects", what, loss.share, usual.shown, cause, cure)


def check_cut_documents(facts: Facts) -> Iterator[Finding]:
    """Find documents that were cut, unless someone has chosen where."""
    limit, usual = DocumentOptions.max_document_bytes, USUAL["cut documents"]
    cut, size = facts.count("read.cut_documents"), facts.count("tokenize.text_bytes")
    # Each piece follows one that has about as much text as the limit allows.
    share = min(1.0, cut * limit / max(1, size))
    if share > usual.high and facts.rules.get("max_document_bytes", limit) == limit:
        what = f"About {percent(share)} of the text is in documents that were cut"
        cause = (
            f"Above {option('max_document_bytes', limit)}, {cut:,} pieces became "
            "documents of their own"
        )
        cure = f"Give a {option('document_rule')} that finds where documents end, or a larger limit"
        yield Finding("cut documents", what, share, usual.shown, cause, cure)


__all__ = ["USUAL", "Finding", "find"]

# A file of fewer bytes is read by one worker in a minute, however unequal the others are.
_LARGE_BYTES = 2**28
# Compressed files, which one worker reads from their beginning to their end.
_COMPRESSED = (".gz", ".bz2", ".zst", ".xz", ".tgz", ".tbz2", ".txz", ".tzst")


def find(manifest: Manifest, spelling: Spelling | None = as_flag) -> tuple[Finding, ...]:
    """Find what makes a data set of little use.

    Args:
        manifest: with counts and splits; shards and files may be missing, if it is an estimate.
        spelling: how options are spelled; None leaves that to what shows the findings.

    Returns:
        The findings, those that usually cause others first.
    """
    facts = Facts(manifest)
    found = (finding for check in _CHECKS for finding in check(facts))
    return tuple(one.spelled(spelling) if spelling else one for one in found)


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
            cure = f"Give more documents, or another {option('document_rule')}"
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
            cause, cure = (
                "Rows are short beside sentences",
                f"Give a larger {option('max_seq_length')}",
            )
        if facts.rules.get("sentence_rule") == "document":
            cause = "Of a document that is too long, one piece is taken in each pass"
            cure = (
                f"Give {option('overflow', 'keep')}, or cut documents with "
                f"{option('max_document_bytes')}"
            )
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
    cure = (
        f"Give a smaller {option('max_seq_length')}, or group rows of similar "
        f"lengths with {option('bin_size')}"
    )
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
        what = (
            f"Examples have {percent(share)} of the predictions that "
            f"{option('masked_lm_prob')} asks for"
        )
        capped = predictions[cap] / sum(predictions.values())
        cause = f"{percent(capped)} of the examples have {cap} predictions, the most allowed"
        cure = f"Give {option('max_predictions_per_seq', round(max(lengths) * prob))}"
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
        return cause, f"Give fewer {option('duplicates')}, such as 1: each epoch draws other masks"
    cause = f"An example of few tokens is masked in the same way in several of {passes} passes"
    return cause, f"Give fewer {option('duplicates')}, or join short texts"


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
                f"Cut documents shorter with {option('max_document_bytes')}, or write "
                f"fewer {option('num_shards')}",
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
        cause = f"{option('validation_share', share)} of {documents:,} documents is few"
        cure = f"Give a larger {option('validation_share')}, or more and shorter documents"
        yield Finding("validation rows", what, rows, usual.shown, cause, cure)


def _check_special_tokens(facts: Facts) -> Iterator[Finding]:
    found = facts.count("tokenize.special_tokens_in_text")
    tokenizer = facts.manifest.tokenizer
    if not (found and tokenizer.options.get("special_tokens_in_text")):
        return
    what = f"{found:,} special tokens of {tokenizer.name}, such as [SEP], stand in the text itself"
    cause = "Each became its id, so that a text can end its own document, or hide a token"
    cure = f"Give {option('special_tokens_in_text', False)}, or remove them from the text"
    yield Finding("special tokens in text", what, found, "none", cause, cure)


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
    _check_special_tokens,
)

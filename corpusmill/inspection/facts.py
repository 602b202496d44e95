"""What findings are judged by: the figures of a data set, and the ranges they usually have."""

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from corpusmill.arrays.columns import Column, Role, column_of
from corpusmill.dataset.accounting import count_copied_tokens, count_copies
from corpusmill.dataset.manifest import Manifest
from corpusmill.errors import option


class Range(NamedTuple):
    """The values of a quantity that are not reported.

    Attributes:
        low: the smallest one.
        high: the largest one.
        shown: the range in words.
    """

    low: float
    high: float
    shown: str


_ANY = float("inf")
# Lines whose mean is longer are paragraphs, and rows this short do not hold every real sentence.
_LONG_LINE, _SHORT_ROW = 40, 128
_LENGTH_STEP = 64
# With fewer rows a share may be far from its expectation by chance.
FEWEST_ROWS = 50
# What is usual of each quantity, by the name of the finding, and why; docs/reference/findings.md
# explains the same names.
USUAL = {
    # What a file lacks is known to nobody, and may be nearly all of it.
    "unfinished files": Range(0, 0, "none"),
    # Clean corpora have none, crawled ones some in a million.
    "rejects": Range(0, 0.01, "up to 1 %"),
    # A text may begin with an example of anything, and few texts do.
    "doubtful format": Range(0, 0.01, "up to 1 %"),
    # 16 MB are the text of ten thick books; hardly a document has more.
    "cut documents": Range(0, 0.01, "up to 1 %"),
    # Text has none; every second byte of English in UTF-16 is one.
    "control characters": Range(0, 0.01, "none"),
    # Vocabularies of the corpus' own language leave less than 0.1 %.
    "unknown tokens": Range(0, 0.01, "up to 1 %"),
    # English has 0.22 and Chinese, whose characters count as three letters, 0.33; a vocabulary of
    # another language spells letters.
    "tokens per letter": Range(0, 0.45, "0.1 to 0.4"),
    # A document of one sentence has no second segment of its own.
    "sentences per document": Range(2, _ANY, "2 and more"),
    # Real sentences have 10 to 60 tokens, and rows 128 to 512.
    "long sentences": Range(0, 0.05, "up to 5 %"),
    # WikiText has 82 to 97 %, with lines longer than rows 50 %.
    "coverage": Range(0.7, 1, "80 % and more"),
    # WikiText has 1 to 6 % in rows of 128 to 512 tokens, and books 18 % in those of 128.
    "empty second segments": Range(0, 0.25, "up to 20 %"),
    # Drawn with 50 %; the sections of WikiText, of 3 lines, give 67 %.
    "class balance": Range(0.25, 0.75, "45 to 70 %"),
    # The paragraphs of WikiText have 65 % in rows of 512; books had 76 %.
    "padding": Range(0, 0.7, "up to 65 %"),
    # Rows of 128 tokens have all with 20 predictions, of 512 only 26 %.
    "capped predictions": Range(0.8, 1, "90 % and more"),
    # Books and WikiText have 0 to 2 %, in passages of 32 tokens.
    "copies": Range(0, 0.1, "up to 3 %"),
    # Crawled text has up to 30 %; of more, half of what is dropped may be no copy to a reader.
    "near duplicates": Range(0, 0.3, "up to 20 %"),
    # Few texts are written in a template that thousands share.
    "crowded buckets": Range(0, 0.01, "none"),
    # Ten passes over the short sections of WikiText give 14 % in pairs.
    "equal rows": Range(0, 0.2, "up to 15 %"),
    # Hashing spreads documents evenly; one worker gets a file.
    "largest file": Range(0, 4, "up to 4 times the median"),
    # A model learns from train alone, and is measured by few.
    "train rows": Range(1, _ANY, "more than validation"),
    # The loss of fewer rows is too noisy to compare models by.
    "validation rows": Range(100, _ANY, "100 and more"),
    # As text they are harmless; as ids one is enough to end a document.
    "special tokens in text": Range(0, 0, "none"),
    # A text that is never cut stands in no row where it is too long.
    "long documents": Range(0, 0.01, "up to 1 %"),
    # A text of which nothing is learned takes time and teaches nothing.
    "unlearned documents": Range(0, 0, "none"),
    # A model learns to stop from the token that ends what it learns.
    "open turns": Range(0, 0, "none"),
    # What stands in no text is lost, or changes what the rest of it means.
    "unread fields": Range(0, 0, "none"),
    # Templates know system, user, assistant and tool, and models were taught them.
    "unknown roles": Range(0, 0, "none"),
    # Most templates end what is learned, and what is before it, with a token.
    "crossing tokens": Range(0, 0, "none"),
    # A model should see texts begin as its tokenizer begins them.
    "begin of text": Range(0, 0, "none"),
    # A model that sees no end does not learn to stop.
    "end of text": Range(0, 0, "none"),
    # A field that no record has is misspelt, or another input was meant.
    "kept fields": Range(1, _ANY, "1 and more"),
    # What follows is of token files, which any tool may have written. A model has no row for them.
    "ids beyond the vocabulary": Range(0, 0, "none"),
    # 16 bits hold 65,536 ids.
    "ids too large for their type": Range(0, 0, "none"),
    # A model that sees two learns that a text ends, or begins, twice.
    "doubled marks": Range(0, 0, "none"),
    # A document is one text; a few quote the token that ends it.
    "merged documents": Range(0, 0.001, "none"),
    # Some columns say where documents end, and ids do.
    "unmarked boundaries": Range(0, 0.01, "none"),
    "contradicting columns": Range(0, 0, "none"),
    # Tables and drawings have runs of spaces or lines; padding and lost blocks have longer ones.
    "runs of one id": Range(0, 0.01, "up to 0.5 %"),
    # Crawled text has up to 15 %, and twice the same file 50 %.
    "repeated windows": Range(0, 0.2, "up to 15 %"),
    "empty rows": Range(0, 0.01, "none"),
    # Rows that are cut may lose what is learned of them.
    "unlearned rows": Range(0, 0.01, "up to 1 %"),
    "masks without effect": Range(0, 0, "none"),
    # A trainer shifts labels itself, or none does.
    "shifted labels": Range(0, 0.5, "none"),
    "labels of other tokens": Range(0, 0.01, "none"),
    "learned padding": Range(0, 0, "none"),
    # Users' turns have ends that are not learned.
    "unlearned ends": Range(0, 0.9, "up to 70 %"),
    # A tokenizer of other text leaves most of its vocabulary unused.
    "unused ids": Range(0, 0.5, "up to 20 %"),
    # What was not UTF-8 when it was read.
    "replacement characters": Range(0, 0.001, "none"),
    # Tokenizers that do not keep all of a text, such as lower-casing ones, are compared by tokens.
    "other tokens": Range(0, 0.01, "up to 1 %"),
    # Duplicates that were dropped are missing, too.
    "missing texts": Range(0, 0.01, "up to 1 %"),
    "doubled texts": Range(0, 0.01, "up to 1 %"),
}


def parts_of(counts: Mapping[str, int], stem: str) -> dict[str, int]:
    """Return the counts whose names begin with a stem, by the rest of their names."""
    return {name.removeprefix(stem): n for name, n in counts.items() if name.startswith(stem)}


def suggest_length(tokens: float) -> int:
    """Return the length of a row for some tokens, a multiple of 64: 120 gives 128."""
    return -(-int(tokens) // _LENGTH_STEP) * _LENGTH_STEP


class Facts:
    """What findings are made from.

    Attributes:
        manifest: with counts and splits; shards and files may be missing, if it is an estimate.
        options: those of the objective.
        rules: those of the corpus.
        distributions: those of all splits together.
        tokens: of all documents.
        sentences: those with tokens.
        sentences_per_document: their mean number.
        repeats: how many times each document was built.
        passes: likewise, on average over all sources.
        trimmed_share: of the tokens, that stand in no row of a pass; 0 where it is not counted.
        has_pairs: whether a row has two segments.
        lacks_pairs: whether rows of two segments are made of documents of one sentence.
        ends_at_blanks: whether an empty line may end a document.
    """

    def __init__(self, manifest: Manifest) -> None:
        self.manifest, counts = manifest, manifest.counts
        self.options, self.rules = manifest.objective.options, manifest.corpus.options
        self.distributions: dict[str, Counter[int]] = {}
        for split in manifest.splits.values():
            for name, values in split.distributions.items():
                self.distributions.setdefault(name, Counter()).update(values)
        documents = max(1, self.count("tokenize.documents"))
        self.tokens = self.count("tokenize.tokens")
        self.sentences = self.count("read.sentences") - self.count("filter.dropped_sentences")
        self.sentences -= self.count("tokenize.empty_sentences")
        self.sentences_per_document = self.sentences / documents
        self.repeats = max(1, manifest.objective.repeats)
        self.passes = self.repeats * count_copies(counts) / documents
        built = count_copied_tokens(counts) * self.repeats
        self.trimmed_share = self.count("build.trimmed_tokens") / max(1, built)
        self.has_pairs = column_of(manifest.columns, Role.SEGMENTS) is not None
        reads_sentences = self.rules.get("sentence_rule") != "document"
        is_single = 0 < self.sentences_per_document < 2
        self.lacks_pairs = reads_sentences and self.has_pairs and is_single
        is_text = self.rules.get("input_format", "text") in {"auto", "text"}
        ends = self.rules.get("document_rule") in {None, "wikitext", "blank-lines"}
        self.ends_at_blanks = is_text and ends

    def count(self, name: str) -> int:
        """The count of this name; 0 where there is none."""
        return self.manifest.counts.get(name, 0)

    def equal_share(self, stage: str, name: str) -> float:
        """Share of the rows or passages that are equal to an earlier one.

        0 where it was not counted, or for so few that chance decides.
        """
        total = self.count(f"{stage}.{name}")
        distinct = self.manifest.counts.get(f"{stage}.distinct_{name}", total)
        return 1 - distinct / total if total >= FEWEST_ROWS else 0.0

    def is_about_segments(self, column: Column) -> bool:
        """Whether a column is a class of the pair of segments, as its title says."""
        return self.has_pairs and column.role is Role.CLASS and "segment" in column.title

    def explain_short_documents(self) -> tuple[str, str]:
        """Why documents have too few sentences, and what cures it."""
        whole = f"{option('document_rule', 'whole-file')} if a file is one text"
        if self.rules.get("sentence_rule") == "split":
            cause = "Sentences are split, but the documents are short"
            if self.ends_at_blanks:
                return cause, f"Add {whole}"
            return cause, "Join the records of one text, or choose examples without pairs"
        cause, cure = self._explain_lines()
        if self.ends_at_blanks:
            rule = self.rules.get("document_rule")
            cause += f", and an empty line ends a document ({option('document_rule', rule)})"
            cure += f", and {whole}"
        return cause, cure

    def explain_long_sentences(self) -> tuple[str, str]:
        """Why sentences do not fit into rows, and what cures it."""
        width = self.options.get("max_seq_length") or 0
        length = self.tokens / max(1, self.sentences)
        are_sentences = width < _SHORT_ROW and length <= _LONG_LINE
        if self.rules.get("sentence_rule") != "split" and not are_sentences:
            return self.explain_short_documents() if self.lacks_pairs else self._explain_lines()
        # Two sentences of twice the mean length fit, or as many tokens as in two rows of today.
        wanted = max(2 * width, suggest_length(4 * length))
        cause = f"Rows of {width:,} tokens are short beside sentences of {length:,.0f} on average"
        return cause, f"Give a larger {option('max_seq_length')}, such as {wanted}"

    @staticmethod
    def _explain_lines() -> tuple[str, str]:
        cause = "Each line is taken for a sentence, but a line of running text is a paragraph"
        split = f"{option('sentence_rule', 'split')} {option('language', 'en')}"
        return cause, f"Add {split}, or the code of the text's language"

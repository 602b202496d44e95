"""The numbers and rules of a data set, as findings are made from them."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from corpusmill.arrays.columns import Role, column_of
from corpusmill.dataset.accounting import count_copied_tokens, count_copies
from corpusmill.dataset.manifest import Manifest

# With fewer rows a share may be far from its expectation by chance.
FEWEST_ROWS = 50


@dataclass(frozen=True)
class Facts:
    """What findings are made from.

    Attributes:
        manifest: with counts and splits; shards and files may be missing, if it is an estimate.
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
                return cause, "Add --document-rule whole-file if a file is one text"
            return cause, "Join the records of one text, or choose examples without pairs"
        cause = "Each line is taken for a sentence, but a line of running text is a paragraph"
        cure = "Add --sentence-rule split --language en, or the code of the text's language"
        if ends_at_blanks and self.lacks_pairs:
            cause += f", and an empty line ends a document (--document-rule {rule})"
            cure += ", and --document-rule whole-file if a file is one text"
        return cause, cure

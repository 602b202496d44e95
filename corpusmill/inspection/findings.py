"""Findings: what makes a data set of little use, judged by its figures.

Findings follow from the manifest alone: from its counts, its distributions, the roles of its
columns and its rules, never from the name of an objective. A data set without findings may still be
bad; one with findings almost always is. docs/reference/findings.md has a row for each of them.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from statistics import median

from corpusmill.arrays.columns import Column, Role, column_of
from corpusmill.corpus.document_options import DocumentOptions
from corpusmill.corpus.filters.functions import most_rows
from corpusmill.corpus.registry import FORMATS
from corpusmill.dataset.accounting import Loss, count_reasons, describe_unfinished, measure_rejects
from corpusmill.dataset.manifest import Manifest
from corpusmill.dataset.manifest_entries import NEAR_DUPLICATES, weigh
from corpusmill.errors import Spelling, as_flag, count_things, option, spell
from corpusmill.inspection.facts import FEWEST_ROWS, USUAL, Facts, parts_of, suggest_length
from corpusmill.layout.placement import SPLIT_NAMES
from corpusmill.tokenization.tokenizer_file import BYTES_FORM

__all__ = ["USUAL", "Finding", "find"]

# A file of fewer bytes is read by one worker in a minute, however unequal the others are.
_LARGE_BYTES = 2**28
# Compressed files, which one worker reads from their beginning to their end.
_COMPRESSED = (".gz", ".bz2", ".zst", ".xz", ".lz4", ".tgz", ".tbz2", ".txz", ".tzst")
# Fields that tell of a record what no text needs.
_DESCRIBING = frozenset({
    "id", "idx", "index", "uuid", "hash", "source", "dataset", "category", "task", "split", "url",
    "license", "language", "lang", "date", "created", "timestamp", "score", "meta", "metadata",
    "conversation_id", "prompt_id", "messages.id",
})  # fmt: skip
# The roles that chat templates know.
_ROLES = ("assistant", "developer", "system", "tool", "user")
# More files whose format is in doubt are counted, not named.
_NAMED_FILES = 3
NEAR_DROPPED = "filter.dropped.near-duplicate"
# A larger share is not kept back for validation.
_LARGEST_SHARE = 0.3


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


def judge(
    name: str, value: float, what: str, cause: str, cure: str, title: str = ""
) -> Iterator[Finding]:
    """Yield a finding of a quantity if it is not in its range in USUAL, perhaps by another name."""
    usual = USUAL[name]
    if not usual.low <= value <= usual.high:
        yield Finding(title or name, what, value, usual.shown, cause, cure)


def _check_rejects(facts: Facts) -> Iterator[Finding]:
    """Name all files that end too early; and find rejects that are much of records or bytes."""
    files = facts.manifest.corpus.files
    cut = sum(file.unread is not None for file in files)
    cause = "They break off or are damaged, as after a download or a copy that did not finish"
    cure = f"Get them again, or leave them out, or give {option('max_rejects')} the share of the "
    cure += "stored bytes that may be lost"
    yield from judge("unfinished files", cut, describe_unfinished(files), cause, cure)
    loss = measure_rejects(facts.manifest.counts, files=())
    what = f"{percent(loss.share)} of the {loss.unit} {loss.verb}"
    yield from judge("rejects", loss.share, what, *_explain_rejects(facts.manifest, loss))


def _explain_rejects(manifest: Manifest, loss: Loss) -> tuple[str, str]:
    """Return why there are rejects of which most have one reason, and what to do."""
    reason = next(iter(count_reasons(manifest.counts)), "")
    files = (path for name, path in manifest.paths.items() if name.startswith("rejects/"))
    look = f"Look into {' and '.join(files) or 'what is refused'}, and"
    if reason == "invalid-utf-8":
        cause = "Most are text in another encoding than UTF-8, such as Windows-1252 or GB18030"
        return cause, f"{look} convert the files, as by: iconv -f WINDOWS-1252 -t UTF-8"
    if reason == "invalid-csv":
        cause = "Quotes stand within cells, where they enclose nothing, or after a backslash"
        return cause, f"{look} give {option('csv_quotes', 'none')} or backslash"
    cause = "They are damaged, or not of the format that was read"
    if loss.unit == "bytes":
        limit = option("max_line_bytes")
        cause = f"Lines or texts above {limit}, or damaged files or blocks, have them"
    return cause, f"{look} choose {option('input_format')} or repair the input"


def _check_formats(facts: Facts) -> Iterator[Finding]:
    """Name files that resemble data in part, and were read as text."""
    files = facts.manifest.corpus.files
    doubtful = [file for file in files if file.resembles]
    size = sum(file.bytes for file in doubtful) / max(1, sum(file.bytes for file in files))
    share = max(size, len(doubtful) / max(1, len(files)))
    named = ", ".join(f"{file.path} ({file.resembles})" for file in doubtful[:_NAMED_FILES])
    named += f" and {len(doubtful) - _NAMED_FILES:,} more" * (len(doubtful) > _NAMED_FILES)
    looks = count_things(len(doubtful), "file looks", "files look")
    what = f"{looks} in part like another format, and became text: {named}"
    cause = "Most of the first lines are of that format in data, and a few in a text"
    cure = f"Give {option('input_format', 'text')} if it is text"
    formats = [file.resembles for file in doubtful if file.resembles in FORMATS.names]
    if formats:
        cure += f", and {option('input_format', formats[0])} if it is not"
    yield from judge("doubtful format", share, what, cause, cure)


def _check_cut_documents(facts: Facts) -> Iterator[Finding]:
    """Find documents that were cut, unless someone has chosen where."""
    limit = DocumentOptions.max_document_bytes
    cut, size = facts.count("read.cut_documents"), facts.count("tokenize.text_bytes")
    # Each piece follows one that has about as much text as the limit allows.
    share = min(1.0, cut * limit / max(1, size))
    if facts.rules.get("max_document_bytes", limit) != limit:
        return  # someone has chosen where
    what = f"About {percent(share)} of the text is in documents that were cut"
    pieces = count_things(cut, "piece was cut off", "pieces were cut off")
    cause = f"Above {option('max_document_bytes', limit)}, {pieces}, a document each"
    cure = (
        f"Give a {option('document_rule')} that finds where documents end; or a larger "
        f"{option('max_document_bytes', 2 * limit)}"
    )
    yield from judge("cut documents", share, what, cause, cure)


def _check_tokenizer(facts: Facts) -> Iterator[Finding]:
    size = facts.count("tokenize.text_bytes")
    share = facts.count("tokenize.control_characters") / max(1, size)
    what = f"{percent(share)} of the text's bytes are control characters"
    cause = "It is no text, or in an encoding such as UTF-16, and was read as UTF-8"
    cure = "Convert it to UTF-8, or leave it out"
    if binary := [*judge("control characters", share, what, cause, cure)]:
        yield from binary
        return  # no tokenizer is to blame for what it makes of this
    tokenizer = facts.manifest.tokenizer
    share = facts.count("tokenize.unknown_tokens") / max(1, facts.tokens)
    what = f"{percent(share)} of the tokens are unknown ([UNK])"
    cause = f"The vocabulary of {tokenizer.name} cannot spell the text"
    cure = "Give a tokenizer of the text's language, or train one with train-tokenizer"
    yield from judge("unknown tokens", share, what, cause, cure)
    if tokenizer.form == BYTES_FORM:
        return  # it has a token for each byte by choice
    letters = size - facts.count("tokenize.letter_bytes")
    value = facts.tokens / letters if letters else 0.0
    what = f"The text has {value:.2f} tokens for each letter, where a Chinese character counts as "
    what += "three"
    cause = f"The {tokenizer.vocab_size:,} tokens of {tokenizer.name} are too few, or those of "
    cause += "another language"
    yield from judge("tokens per letter", value, what, cause, cure)


def _check_documents(facts: Facts) -> Iterator[Finding]:
    if facts.lacks_pairs:
        value = facts.sentences_per_document
        what = f"A document has {value:.2f} sentences, but an example is made of two segments"
        explained = facts.explain_short_documents()
        yield from judge("sentences per document", value, what, *explained)
    share = facts.count("build.long_sentences") / max(1, facts.sentences * facts.passes)
    if facts.trimmed_share:
        what = f"{percent(share)} of the sentences are longer than a row and are cut off"
        yield from judge("long sentences", share, what, *facts.explain_long_sentences())
    value = 1 - facts.trimmed_share
    what = f"{percent(value)} of the corpus' tokens stand in an example; the others are cut off"
    cause, cure = facts.explain_long_sentences()
    if facts.count("build.long_documents"):
        cause = "Texts that are longer than a row are left out"
        cure = f"Give a larger {option('max_seq_length')}"
    elif facts.rules.get("sentence_rule") == "document":
        cause = "Of a document that is too long, one piece is taken in each pass"
        limit = option("max_document_bytes")
        cure = f"Give {option('overflow', 'keep')}; or cut documents with {limit}"
    yield from judge("coverage", value, what, cause, cure)


def _check_second_segments(facts: Facts) -> Iterator[Finding]:
    lengths = facts.distributions.get("second_segment_length", Counter[int]())
    rows = sum(lengths.values())
    share = lengths[0] / max(1, rows)
    if rows < FEWEST_ROWS or not any(map(facts.is_about_segments, facts.manifest.columns)):
        return
    what = f"{percent(share)} of the examples have an empty second segment"
    cause = "The first sentences fill the row, and the class tells little but that nothing follows"
    _, cure = facts.explain_long_sentences()
    if facts.options.get("pairs") == "article":
        cure += f"; or give {option('pairs', 'google')}, whose second segments have a sentence"
    yield from judge("empty second segments", share, what, cause, cure)


def _check_classes(facts: Facts) -> Iterator[Finding]:
    for column in facts.manifest.columns:
        counts = facts.distributions.get(column.name, Counter[int]())
        rows = sum(counts.values())
        if column.role is not Role.CLASS or len(column.value_names) != 2 or rows < FEWEST_ROWS:
            continue
        share, name = counts[1] / rows, f"{column.value_names[1]} {column.title}"
        what = f"{percent(share)} of the examples have the class: {name}"
        cause, cure = _explain_class(facts, column, share)
        yield from judge("class balance", share, what, cause, cure, name)


def _explain_class(facts: Facts, column: Column, share: float) -> tuple[str, str]:
    """Explain a class by segments only where it is about them."""
    is_low = share < USUAL["class balance"].low
    if not facts.is_about_segments(column):
        rare = column.value_names[1 if is_low else 0]
        cause = f"The text gives few examples of the class: {rare}"
        return cause, "Give text that has more of them, or weigh the classes when you train"
    if is_low:
        cause = "There is hardly another document to draw a segment from"
        return cause, f"Give more documents, or another {option('document_rule')}"
    cause, cure = facts.explain_short_documents()
    if not facts.lacks_pairs:
        cause = "Few documents are long enough for a second segment of their own"
    return cause, cure


def _check_padding(facts: Facts) -> Iterator[Finding]:
    width = facts.manifest.columns[0].width
    lengths = facts.distributions.get("length", Counter[int]())
    rows = sum(lengths.values())
    tokens = sum(length * number for length, number in lengths.items())
    if width <= 0 or rows < FEWEST_ROWS:
        return
    mean = tokens / rows
    share = max(0.0, 1 - mean / width)  # rows of a stream may be longer
    what = f"{percent(share)} of the positions are padding, if every row is padded to its width"
    cause = f"A row of {width:,} places holds {mean:,.0f} tokens on average"
    # Rows of twice the mean length hold most texts whole.
    cure = f"Give a smaller {option('max_seq_length')}, such as {suggest_length(2 * mean)}; or "
    cure += "read rows of similar lengths together, with make_batches(..., by_length=True)"
    if facts.lacks_pairs:
        explained, cure = facts.explain_short_documents()
        cause += f". {explained}"
    yield from judge("padding", share, what, cause, cure)


def _check_predictions(facts: Facts) -> Iterator[Finding]:
    predictions = facts.distributions.get("predictions", Counter[int]())
    lengths = facts.distributions.get("length", Counter[int]())
    cap, prob = facts.options.get("max_predictions_per_seq"), facts.options.get("masked_lm_prob", 0)
    if not (predictions and lengths and isinstance(cap, int) and isinstance(prob, int | float)):
        return
    wanted = prob * weigh(lengths)
    share = min(1.0, weigh(predictions) / wanted) if wanted else 1.0
    if max(predictions) == cap:
        asks = option("masked_lm_prob")
        what = f"Examples have {percent(share)} of the predictions that {asks} asks for"
        capped = predictions[cap] / sum(predictions.values())
        cause = f"{percent(capped)} of the examples have {cap} predictions, the most allowed"
        cure = f"Give {option('max_predictions_per_seq', round(max(lengths) * prob))}"
        yield from judge("capped predictions", share, what, cause, cure)


def _check_learned(facts: Facts) -> Iterator[Finding]:
    """Check texts that are never cut, and of which a part is learned."""
    documents = max(1, round(facts.count("tokenize.documents") * facts.passes))
    long, width = facts.count("build.long_documents"), facts.options.get("max_seq_length")
    what = f"{long:,} of the documents are longer than a row, and left out"
    cure = f"Give a larger {option('max_seq_length')}; with provenance, "
    cure += f"`trace --where 'tokens > {width}'` names them"
    yield from judge("long documents", long / documents, what, "They are never cut", cure)
    unlearned = facts.count("build.unlearned_documents")
    what = f"{count_things(unlearned, 'document has', 'documents have')} nothing to be learned"
    cause = "They have no turn of a role that is learned"
    cure = "Leave them out, or name other roles that are learned"
    yield from judge("unlearned documents", unlearned / documents, what, cause, cure)
    crossing = facts.count("tokenize.crossing_tokens")
    what = f"{count_things(crossing, 'token lies', 'tokens lie')} across an end of what is "
    what += "learned, and so no part of it"
    cause = "They join the end of what asks for an answer with its beginning, most likely"
    cure = "Let what asks for an answer end with a special token or a line break, not a space"
    yield from judge("crossing tokens", crossing / documents, what, cause, cure)
    following = parts_of(facts.manifest.counts, "tokenize.open_turns.")
    turns = facts.count("tokenize.learned_turns")
    number, token = sum(following.values()), max(following, key=following.__getitem__, default="")
    what = f"{number:,} of {count_things(turns, 'learned turn')} end with no special token, so "
    what += "that a model does not learn to stop"
    cure = f"Give {option('end_of_turn', token or '<|im_end|>')}, or the token at which your "
    cure += "model stops; or let {% generation %} hold the end of a turn"
    yield from judge("open turns", number / max(1, turns), what, "The template writes none", cure)


def _check_unread(facts: Facts) -> Iterator[Finding]:
    """Name the fields of records that reach no text, and roles that no template knows."""
    documents, counts = max(1, facts.count("tokenize.documents")), facts.manifest.counts
    fields = parts_of(counts, "tokenize.unread.")
    fields = {name: number for name, number in fields.items() if name not in _DESCRIBING}
    what = f"Fields do not reach the text, or not whole (number of records): {_list_counts(fields)}"
    cause = "The template or the layout of the records has no place for them"
    cure = "Give a template that writes them, or rename, join or remove them in the input"
    value = max(fields.values(), default=0) / documents
    yield from judge("unread fields", value, what, cause, cure)
    roles = parts_of(counts, "tokenize.unknown_roles.")
    what = f"Messages have roles that are none of a template's: {_list_counts(roles)}"
    cause = "Their turns are written as the template has it, and are not learned"
    cure = f"Name them {', '.join(_ROLES)}; or give {option('learned_roles')}"
    yield from judge("unknown roles", sum(roles.values()) / documents, what, cause, cure)


def _list_counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} ({number:,})" for name, number in counts.items())


def _check_copies(facts: Facts) -> Iterator[Finding]:
    copies, rows = facts.equal_share("tokenize", "passages"), facts.equal_share("write", "rows")
    what = f"{percent(copies)} of the text is copies of other documents or their beginnings"
    cause = "Texts stand in the corpus more than once, such as mirrors, forms or notices"
    cure = f"Add {option('drop_duplicates', True)}, and remove copies of parts before the build; "
    cure += "with them, validation holds texts of training"
    yield from judge("copies", copies, what, cause, cure)
    # Rows that are equal because the text is are not found a second time.
    if 1 - rows < (1 - USUAL["equal rows"].high) * (1 - copies):
        what = f"{percent(rows)} of the examples are equal to others"
        yield from judge("equal rows", rows, what, *_explain_equal_rows(facts))


def _check_near_duplicates(facts: Facts) -> Iterator[Finding]:
    """Find a corpus, or a source, of which much was dropped; and what was not compared."""
    filtering, counts = facts.manifest.corpus.filtering, facts.manifest.counts
    options = filtering.near_duplicates if filtering else {}
    sources = {source.name: source.counts for source in facts.manifest.corpus.sources}
    for source, own in {"": counts, **sources}.items():
        share = own.get(NEAR_DROPPED, 0) / max(1, own.get("near.documents", 0))
        text = own.get("near.dropped_bytes", 0) / max(1, own.get("near.bytes", 0))
        what = (
            f"{percent(share)} of the documents{f' of {source}' * bool(source)} that are compared "
        )
        what += f"are near-duplicates, with {percent(text)} of their text, and are left out"
        cause = "Pages, forms or templates differ in a few words; or they are told apart by these"
        pairs = [pair for pair in facts.manifest.near_pairs if source in ("", pair.source)]
        cause += f". Of some pairs, similarity and beginnings are {'; '.join(map(str, pairs[:3]))}"
        look = facts.manifest.paths.get(NEAR_DUPLICATES)
        cure = f"Compare {f'more of {look}' if look else 'them'}; if they are too different to be "
        cure += f"copies, give {option('drop_near_duplicates', 0.95)}"
        yield from judge("near duplicates", share, what, cause, cure)
    looks = facts.count("near.documents") * options.get("near_duplicate_bands", 1)
    share = facts.count("near.crowded") / max(1, looks)
    what = f"In {percent(share)} of their bands documents were compared with the first of many only"
    cause = "Many are copies, or share a template or a notice that makes most of their text"
    cure = "Drop duplicates, too, and remove before the build what many share"
    rows = min(13, most_rows(options.get("drop_near_duplicates", 1)))
    if rows > options.get("near_duplicate_rows", 0):
        cure += f"; or give {option('near_duplicate_rows', rows)}"
    yield from judge("crowded buckets", share, what, cause, cure)


def _explain_equal_rows(facts: Facts) -> tuple[str, str]:
    passes = facts.repeats
    if passes == 1:
        cure = f"Add {option('drop_duplicates', True)}, and remove these parts before the build"
        return "Documents repeat parts of one another", cure
    predicted = (Role.POSITIONS, Role.TARGET_IDS)
    if not any(column_of(facts.manifest.columns, role) for role in predicted):
        cause = f"Rows that are masked when they are loaded are equal in several of {passes} passes"
        return cause, f"Give fewer {option('duplicates')}, such as 1: each epoch draws other masks"
    cause = f"An example of few tokens is masked in the same way in several of {passes} passes"
    fewer = max(1, int(passes * (1 - facts.equal_share("write", "rows")) / 2))
    return cause, f"Give fewer {option('duplicates')}, such as {fewer}, or join short texts"


def _check_sizes(facts: Facts) -> Iterator[Finding]:
    for name, split in facts.manifest.splits.items():
        yield from _check_largest(
            [shard.bytes for shard in split.shards],
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
    largest = max(sizes, default=0)
    if len(sizes) < 2 or largest < _LARGE_BYTES:
        return
    value = largest / max(1, median(sizes))
    what = f"The largest {name} has {largest:,} bytes, {value:.1f} times the median"
    yield from judge("largest file", value, what, cause, cure, f"largest {name}")


def _check_rows(facts: Facts) -> Iterator[Finding]:
    """Compare the rows of train and validation."""
    splits, share = facts.manifest.splits, facts.manifest.output.validation_share
    if not share:
        return
    train, rows = (splits[name].rows if name in splits else 0 for name in SPLIT_NAMES)
    documents = count_things(facts.count("tokenize.documents"), "document")
    held_back, fewest = option("validation_share", share), USUAL["validation rows"].low
    if train < rows:
        what = f"The train split has {count_things(train, 'example')}, and the validation split "
        what += f"{rows:,}"
        cause = f"{held_back} keeps most of {documents} back"
        cure = f"Give a smaller {option('validation_share')}, such as 0.1"
        yield from judge("train rows", train / rows, what, cause, cure)
        return
    what = f"The validation split has {count_things(rows, 'example')}"
    wanted, cure = 1.5 * share * fewest / max(1, rows), "more and shorter documents"
    if wanted <= _LARGEST_SHARE:
        cure = f"a larger {option('validation_share')}, such as {wanted:.2g}, or {cure}"
    yield from judge(
        "validation rows", rows, what, f"{held_back} of {documents} is few", f"Give {cure}"
    )


def _check_kept_fields(facts: Facts) -> Iterator[Finding]:
    fields = facts.rules.get("keep_fields", ())
    values = [facts.manifest.counts.get(f"read.kept_values.{n}", 1) for n in range(len(fields))]
    empty = [name for name, number in zip(fields, values, strict=True) if not number]
    if empty and facts.count("tokenize.documents"):
        what = f"No document has a value in {option('keep_fields', empty)}"
        cause = "No record has a field of that name, or it is null in all of them"
        cure = "Name fields that the records have, or leave these out"
        yield from judge("kept fields", 0, what, cause, cure)


def _check_special_tokens(facts: Facts) -> Iterator[Finding]:
    tokens, tokenizer = facts.count("tokenize.special_tokens_in_text"), facts.manifest.tokenizer
    if tokenizer.options.get("special_tokens_in_text"):
        what = f"The text itself has {count_things(tokens, 'special token')} of {tokenizer.name}, "
        what += "such as [SEP]"
        cause = "Each became its id, so that a text can end its own document, or hide a token"
        cure = f"Give {option('special_tokens_in_text', False)}, or remove them from the text"
        yield from judge("special tokens in text", tokens, what, cause, cure)


def _check_bounds(facts: Facts) -> Iterator[Finding]:
    """Compare what begins and ends documents with what the tokenizer's own `encode` puts there."""
    tokenizer, bounds = facts.manifest.tokenizer, facts.manifest.objective.bounds_of_text
    documents = facts.count("tokenize.documents")
    if bounds is None:
        return
    special = tokenizer.special
    for name, ids, usual_ids in (
        ("begin", bounds[0], special.before), ("end", bounds[1], special.after),
    ):  # fmt: skip
        leaves_out, adds = (
            option(f"{name}_of_text", value, is_switch=False) for value in (False, True)
        )
        if usual_ids and not ids:
            shown = ", ".join(map(str, usual_ids))
            what = f"No document {name}s with {shown}, unlike texts that {tokenizer.name} encodes"
            cause = f"{leaves_out} leaves out what the tokenizer adds"
            yield from judge(f"{name} of text", documents, what, cause, f"Give {adds}")
        elif ids and usual_ids == () and name == "begin":
            shown = ", ".join(map(str, ids))
            what = f"Each document begins with {shown}, unlike texts that {tokenizer.name} encodes"
            cause = "The tokenizer_config.json beside it has add_bos_token: false"
            yield from judge("begin of text", documents, what, cause, f"Give {leaves_out}")


_CHECKS = (
    _check_rejects,
    _check_formats,
    _check_cut_documents,
    _check_tokenizer,
    _check_documents,
    _check_second_segments,
    _check_classes,
    _check_padding,
    _check_predictions,
    _check_copies,
    _check_near_duplicates,
    _check_sizes,
    _check_rows,
    _check_special_tokens,
    _check_bounds,
    _check_kept_fields,
    _check_unread,
    _check_learned,
)

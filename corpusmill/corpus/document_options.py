"""How files become documents: the options of a corpus, and those of its parts where they differ."""

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Annotated, Any, Literal, Protocol, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from corpusmill.arrays.text_hashes import DOCUMENT_COLUMNS
from corpusmill.corpus.groups import Grouping, has_open_brace, list_fields
from corpusmill.corpus.records.csv_dialects import Quotes
from corpusmill.errors import UserError, option
from corpusmill.settings.constraints import CheckedOptions, Needs, Range

# Keeps the text of a batch, even with one more document and line, within Arrow's 32-bit offsets.
MAX_LIMIT_BYTES = 2**28

# Why a document is dropped, by what `Judge.judge` returns of its record.
DROP_REASONS = ("", "where", "where-other-type")

# What makes one document of several records.
_NEEDS_GROUPS = Needs("group_by", example="repo_name")
OF_GROUPS = ("group_by", "order_by", "join", "begin_of_group", "max_group_tokens")

DocumentRule = Literal["wikitext", "wikitext-articles", "blank-lines", "whole-file"]
SentenceRule = Literal["line", "split", "document"]


class Judge(Protocol):
    """Tells of records whether their documents are taken; it travels to the workers."""

    def choose(self, names: Iterable[str], /) -> list[str]:
        """Return which of a record's outermost fields are judged, of those with these names."""

    def judge(self, records: pa.Array, /) -> npt.NDArray[np.uint8]:
        """Return uint8[n], the index in DROP_REASONS for each record; 0 for one that is taken.

        Args:
            records: n objects of JSON with the chosen fields, as pa.string, or a struct of them.
        """


class TextMaker(Protocol):
    """Makes the text of a record of several fields; frozen, as it travels to the workers."""

    @property
    def fields(self) -> tuple[str, ...]:
        """The names of the fields of which it makes a text, as far as a record has them."""

    def __call__(self, record: Mapping[str, Any], others: tuple[str, ...] = (), /) -> str:
        """Return the text of a record.

        Args:
            record: a mapping of names to values in JSON's types.
            others: the names of fields that the record has beside those.

        Raises:
            UnreadableError: the record is refused, with a reason and a detail.
        """

    def explain_lack(self, names: Sequence[str]) -> tuple[str, str] | None:
        """Return why a record with these fields has no text, and the cure; None if it may have.

        The cause ends before the names of the fields, which follow it.
        """


@dataclass(frozen=True)
class DocumentOptions(CheckedOptions):
    """How files become documents. A rule of None means WikiText's documents and lines as sentences.

    Raises:
        UserError: a rule does not exist, a language is missing or not used, a field is not to be
            kept under its name, or a limit is below 1 or above 2**28.
    """

    input_format: str = "auto"
    """What the files hold: "text" is documents of many lines, "lines" one document a line,
    "json-lines" one JSON object a line, "json" objects in an array or one after the other;
    "parquet", "arrow" (files, streams, Feather, what Hugging Face's save_to_disk writes), "avro",
    "csv" and "tsv" (below a header) one document a row, "tar" one document a member, "wet" one a
    web page. "auto" goes by the first bytes of each file, and where they are text without a sure
    format by the names: .jsonl, .jl, .ndjson and .json are JSON lines; .arrow and .feather, .csv,
    .tsv, .tar, .tgz and .wet are the formats of those names; all others are text. Installed
    packages may add formats."""
    csv_separator: str | None = None
    """The character between the cells of CSV files ("tab" for a tab); by default the one that the
    header shows, of comma, semicolon, tab and |."""
    csv_quotes: Quotes | None = None
    """What quotes mean in CSV and TSV files: they enclose cells, in which a quote is doubled
    ("double") or stands after a backslash ("backslash"), or they are letters as any other ("none").
    By default what fits the first rows of a file."""
    text_field: str = "text"
    """Name of the field that holds a record's text, in formats that have fields; data.text is the
    field text inside data."""
    keep_fields: tuple[str, ...] = ()
    """Names of fields of a record that are kept beside its text (url,id,meta.date), in formats that
    have fields. They do not change the examples; provenance lists them for each document, as
    text."""
    where: str | None = None
    """Take only the records for which a condition of SQL is true, as DuckDB understands it (needs
    the extra "sql"): "score > 0.8 and lang in ('en', 'de')"; meta.score is the field score inside
    meta. The others are counted as dropped. The first records tell the types of the fields."""
    group_by: Annotated[str | None, Needs("join", example="<|file_sep|>{path}")] = None
    """Make one document of all records of a source with the same value in this field, such as
    repo_name (data.repo is the field repo inside data), in formats that have fields. A record
    without a value is a document of its own. Conditions, filters and provenance see the records."""
    order_by: Annotated[str | None, _NEEDS_GROUPS] = None
    """With --group-by, the field by whose values the records of a document are ordered, such as
    path: numbers first, then texts. By default they stand in the order of the input."""
    join: Annotated[str | None, _NEEDS_GROUPS] = None
    r"""With --group-by, what is put before each record, with the values of fields in it:
    "<|file_sep|>{path}\n". Added tokens of the tokenizer that stand in it become their ids, but
    special ones in values do not; \n is a line break."""
    begin_of_group: Annotated[str | None, _NEEDS_GROUPS] = None
    """With --group-by, what is put before the first record of each document, before its --join:
    "<|repo_name|>{repo_name}"."""
    max_group_tokens: Annotated[int, Range(1, 2**26), _NEEDS_GROUPS] = 2**22
    """With --group-by, the most tokens of a document: records that would exceed them begin another
    one. A longer record is not cut."""
    document_rule: DocumentRule | None = None
    """What separates the documents of a text: "wikitext" is a line that is empty or starts with "="
    (a title), "wikitext-articles" is a title of the first level alone (" = Title = ", followed by
    an empty line), "blank-lines" is an empty line alone; with "whole-file" each file is one
    document. White space around a line does not count. By default what the objective expects, and
    "wikitext" where none is named."""
    sentence_rule: Annotated[
        SentenceRule | None, Needs("language", where="split", example="en")
    ] = None
    """What a sentence is: "line" is a line of the text; with "split" each line is running text,
    which is cut into sentences by the rules of --language (needs the extra "sentences"); with
    "document" a document is one text as it stands, line breaks, white space and the titles of
    articles included, as GPT reads it. By default what the objective expects, and "line" where none
    is named."""
    language: Annotated[str | None, Needs("sentence_rule", "split")] = None
    """Language of running text, as a code of two or three letters ("en", "zh")."""
    suffixes: tuple[str, ...] = ()
    """Take only the files of folders and archives whose names end with one of these (.txt .md), not
    counting .gz and the like; by default all files but those whose names start with a point."""
    max_document_bytes: Annotated[int, Range(1, MAX_LIMIT_BYTES)] = 16 * 2**20
    """A document with more text than this is cut between lines into several (a single line is
    never cut), before any line is split into sentences. A whole file that is one text is cut
    after the line that reaches a multiple of this, so that many workers can read it."""
    max_line_bytes: Annotated[int, Range(1, MAX_LIMIT_BYTES)] = 16 * 2**20
    """A line with more bytes than this is rejected."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_fields()
        if self.csv_separator in {r"\t", "tab"}:  # as people write it on a command line
            object.__setattr__(self, "csv_separator", "\t")
        separator = self.csv_separator
        if separator is not None and (len(separator) != 1 or separator in '"\r\n\\'):
            cause = "a separator is one character, and neither a quote nor a backslash"
            raise UserError(
                option("csv_separator", separator), cause, "Give one such as ; or a tab"
            )
        if not all(self.suffixes):
            raise UserError(
                option("suffixes"), "one of them is empty", "Give ends of names such as .txt"
            )

    def _check_fields(self) -> None:
        """Split the names of fields at commas, add those that group records, and check them."""
        names = tuple(name.strip() for each in self.keep_fields for name in each.split(","))
        names += tuple(name for name in self._grouping_fields if name not in names)
        object.__setattr__(self, "keep_fields", names)
        for name in names:
            cause, cure = "", "Name each field once, as in url,id,date"
            if not name:
                cause = "one of the names is empty"
            elif name != name.strip() or "," in name:
                cause = "the name of a field has neither commas nor spaces around it"
                cure = "Name one field"
            elif names.count(name) > 1:
                cause = f"{name} is named twice"
            elif name in DOCUMENT_COLUMNS:
                cause = f"the table of documents has a column {name} of its own"
                cure = "Rename the field in the input, or leave it out"
            elif name == self.text_field:
                cause, cure = f"{name} is the text itself", "Name other fields"
            if cause:
                raise UserError(self.mention_field(name, names), cause, cure)

        for name in ("join", "begin_of_group"):
            if has_open_brace(template := getattr(self, name) or ""):
                cause = "a brace in it does not enclose the name of a field"
                raise UserError(option(name, template), cause, "Write fields as {path}")

    @property
    def _grouping_fields(self) -> dict[str, str]:
        """The fields by which records are grouped, each with the name of the option that has it."""
        named = {self.group_by: "group_by", self.order_by: "order_by"}
        templates = {name: getattr(self, name) or "" for name in ("join", "begin_of_group")}
        inner = {field: name for name in templates for field in list_fields(templates[name])}
        return {name: value for name, value in (named | inner | named).items() if name is not None}

    def mention_field(self, field: str, among: Sequence[str] = ()) -> option:
        """Return the option that names a field which is kept, perhaps among others."""
        name = self._grouping_fields.get(field)
        return option(name, getattr(self, name)) if name else option("keep_fields", among or field)

    @property
    def grouping(self) -> Grouping | None:
        """How records are joined to documents; None if each is a document."""
        if self.group_by is None or self.join is None:
            return None
        heads = self.join, (self.begin_of_group or "") + self.join
        return Grouping(self.group_by, self.order_by, self.max_group_tokens, heads)

    def or_else(
        self, document_rule: DocumentRule | None, sentence_rule: SentenceRule | None
    ) -> Self:
        """Return the options with these rules in place of those that are None."""
        return replace(
            self,
            document_rule=self.document_rule or document_rule,
            sentence_rule=self.sentence_rule or sentence_rule,
        )

    def recorded(self) -> dict[str, Any]:
        """Return the options as a manifest has them: without those of some formats if not given.

        Data sets of other formats are then as they were before there were any.
        """
        options = asdict(self)
        rare = ("keep_fields", "where", "csv_separator", "csv_quotes", *OF_GROUPS)
        for name in rare:
            if not options[name] or (name in OF_GROUPS and self.group_by is None):
                del options[name]
        return options

    def differences(self, common: "DocumentOptions") -> dict[str, Any]:
        """Return the options that are not those of others, by name."""
        options, others = asdict(self), asdict(common)
        return {name: value for name, value in options.items() if value != others[name]}

    def of_file(self, _: int) -> Self:
        """Return the options of a file by its number: all files of the corpus have the same."""
        return self

    def without_fields(self) -> Self:
        """Return the options with which no field is kept, and no records are joined."""
        none = {name: getattr(DocumentOptions, name) for name in OF_GROUPS}
        return replace(replace(self, **none), keep_fields=())

    def refuse_groups(self) -> None:
        """Refuse to join records, as what reads them one by one does.

        Raises:
            UserError: they are to be joined.
        """
        if self.group_by is not None:
            cause, cure = "a build alone joins records", "Leave it out; records are read one by one"
            raise UserError(option("group_by", self.group_by), cause, cure)

    def describe(self, name: str) -> str:
        """Return the value of an option as a text; empty for None."""
        return str(getattr(self, name) or "")

    @property
    def keeps_text(self) -> bool:
        """Whether a document is one text as it stands."""
        return self.sentence_rule == "document"

    @property
    def text_maker(self) -> TextMaker | None:
        """What makes the text of a record; None if the field of the text holds it."""
        return None

    @property
    def judge(self) -> Judge | None:
        """What judges records by `where`; None where all are taken, or the types are not known."""
        return None

    @property
    def num_fields(self) -> int:
        """How many values are read beside the text of a record: kept fields, and what is judged."""
        return len(self.keep_fields) + (self.judge is not None)

    def require_sentences(self, objective: str) -> Self:
        """Return the options for an objective whose examples are made of sentences.

        Raises:
            UserError: documents are whole texts.
        """
        if self.keeps_text:
            raise UserError(
                f"{option('sentence_rule')} document",
                f"{objective} makes its examples of sentences; a document that is one sentence "
                "would be cut to a single sequence",
                f"Use line, or split with {option('language')}",
            )
        return self


@dataclass(frozen=True)
class MadeDocumentOptions(DocumentOptions):
    """Options of records whose texts are made, or which are judged: not all in a manifest.

    Attributes:
        maker: makes the text of a record.
        judged_by: judges records.
    """

    maker: TextMaker | None = None
    judged_by: Judge | None = None

    def recorded(self) -> dict[str, Any]:
        """Return the options as a manifest has them."""
        return _without_maker(self).recorded()

    def differences(self, common: DocumentOptions) -> dict[str, Any]:
        """Return the options that are not those of others, by name."""
        return _without_maker(self).differences(_without_maker(common))

    @property
    def text_maker(self) -> TextMaker | None:
        """What makes the text of a record."""
        return self.maker

    @property
    def judge(self) -> Judge | None:
        """What judges records."""
        return self.judged_by


def _without_maker(options: DocumentOptions) -> DocumentOptions:
    return DocumentOptions(**{each.name: getattr(options, each.name) for each in _FIELDS})


_FIELDS = fields(DocumentOptions)


@dataclass(frozen=True)
class OptionsBySource:
    """How files become documents where the sources of a corpus have options of their own.

    Attributes:
        parts: the number of the first file of each part of the corpus, in ascending order, and the
            options of its files.
        keep_fields: names of the fields that documents of all parts have. Those that a part does
            not keep are null.
    """

    parts: tuple[tuple[int, DocumentOptions], ...]
    keep_fields: tuple[str, ...] = ()

    def of_file(self, number: int) -> DocumentOptions:
        """Return the options of a file by its number among all files of the corpus."""
        place = bisect_right(self.parts, number, key=lambda part: part[0]) - 1
        return self.parts[place][1]

    def without_fields(self) -> Self:
        """Return the options with which no field is kept."""
        parts = tuple((first, options.without_fields()) for first, options in self.parts)
        return replace(self, parts=parts, keep_fields=())

    def describe(self, name: str) -> str:
        """Return the values that an option has in any part, as a text."""
        return ", ".join(dict.fromkeys(options.describe(name) for _, options in self.parts))


# How the files of a corpus are read: all in one way, or each source in its own.
CorpusReading = DocumentOptions | OptionsBySource


def make_texts(options: DocumentOptions, maker: TextMaker | None) -> DocumentOptions:
    """Return options with what makes the text of a record, if anything does."""
    if maker is None:
        return options
    return MadeDocumentOptions(**vars(_without_maker(options)), maker=maker)


def judge_records(options: DocumentOptions, judge: Judge) -> DocumentOptions:
    """Return options with what judges records."""
    common = vars(_without_maker(options))
    return MadeDocumentOptions(**common, maker=options.text_maker, judged_by=judge)


def make_texts_of(reading: CorpusReading, maker: TextMaker | None) -> CorpusReading:
    """Return how a corpus is read, with what makes the text of a record."""
    if isinstance(reading, DocumentOptions):
        return make_texts(reading, maker)
    parts = tuple((first, make_texts(options, maker)) for first, options in reading.parts)
    return replace(reading, parts=parts)


def read_by_source(
    common: DocumentOptions, parts: Sequence[tuple[int, DocumentOptions]]
) -> CorpusReading:
    """Return how a corpus is read.

    Args:
        common: the options, with all fields that are kept of any part.
        parts: as `OptionsBySource` has them; empty where no part of the corpus has a name.
    """
    if all(options == common for _, options in parts):
        return common
    # A job of thousands of sources holds them many times: equal options are one object.
    shared = {options: options for _, options in parts}
    return OptionsBySource(
        tuple((first, shared[options]) for first, options in parts), common.keep_fields
    )

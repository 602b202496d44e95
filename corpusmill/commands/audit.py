"""The command that judges token files, whoever wrote them."""

from dataclasses import dataclass, field
from typing import Annotated, Literal

from corpusmill.audit.token_files import TOKEN_FORMATS
from corpusmill.commands.command import Command
from corpusmill.corpus.document_options import DocumentOptions
from corpusmill.corpus.registry import FORMATS
from corpusmill.settings.constraints import CheckedOptions, Range
from corpusmill.settings.options import Positionals
from corpusmill.tokenization.tokenizer_file import TokenizerOptions

DataType = Literal["uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64"]
_IDS = Range(0, 2**31 - 1)


@dataclass(frozen=True)
class Audit(CheckedOptions):
    """Say what is wrong with token files of any tool, before a training runs on them for weeks.

    Nothing is written beside the files, and nothing in them is run.
    """

    paths: Positionals
    """Files or folders of one format: Megatron-LM's .bin with .idx, ids alone (.bin, .npy), .ds of
    datatrove, MDS, LitData, Levanter's caches, Parquet, Arrow and JSON lines with input_ids,
    TFRecord, and data sets of corpusmill."""
    format: str | None = None
    """The format, where the names of files do not tell it."""
    dtype: DataType | None = None
    """The type of ids in files that do not say it, such as uint16; by default it is judged by the
    first ids."""
    tokenizer: str | None = None
    """The tokenizer that made the ids: a file, a folder or a name on the Hugging Face hub; by
    default that of a data set of corpusmill. Texts are decoded with it and encoded again, in the
    ways in which libraries load it."""
    begin_id: Annotated[int | None, _IDS] = None
    """The id that begins a document; by default what the tokenizer says, or most rows show."""
    end_id: Annotated[int | None, _IDS] = None
    """The id that ends a document; likewise."""
    pad_id: Annotated[int | None, _IDS] = None
    """The id that fills rows; likewise."""
    sample: Annotated[float, Range(0, 1, without=0)] = 1.0
    """Read only this share of large files, in parts of 4 million ids that lie evenly apart."""
    text: tuple[str, ...] = ()
    """Files of the corpus: its documents are looked up in the token files, and missing, doubled and
    otherwise tokenized ones counted. The document options say how it becomes documents."""
    html: str | None = None
    """Also write the report as one HTML page to this file."""
    json: str | None = None
    """Also write all numbers and findings to this file."""
    strict: bool = False
    """Exit with status 1 if there is a finding."""

    tokenizer_options: TokenizerOptions = field(default_factory=TokenizerOptions)
    documents: DocumentOptions = field(default_factory=DocumentOptions)


_CHOICES = {
    (Audit, "format"): TOKEN_FORMATS.names,
    (DocumentOptions, "input_format"): ("auto", *FORMATS.names),
}
COMMAND = Command(Audit, "corpusmill.commands.auditing:audit", _CHOICES)

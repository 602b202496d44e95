"""What an objective, a format, a filter, a rule of words or a collator of another package needs.

Everything here is imported when it is first used. These names are stable; the modules that they
come from are not.

An objective derives its options and itself:

    ObjectiveOptions, Preset                options of a command, and sets of them
    Range, Needs                            what a value of an option must be, in its field
    SuitedTokenizer                         the tokenizer that suits an objective
    Objective, Repeat                       what builds rows, and the pass that it builds
    Column, Role, ANY_LENGTH, NO_PAD        the columns of a data set
    DocumentOptions                         how files become documents
    Vocabulary, SpecialTokens               what an objective knows of a tokenizer
    TextCuts, TextMarks                     cuts texts that are tokenized, or marks in them do
    TextMaker, UnreadableError              makes the text of a record, or refuses it
    Masker                                  draws masks when rows are loaded

Rows are made of documents by kernels:

    unpack_documents, measure_sentences     tokenized documents as arrays, and their lengths
    cut_windows                             rows of at most so many tokens
    ragged                                  lists of any length as two arrays
    njit                                    compiles a kernel
    purpose_of, derive_keys                 streams of random numbers of a document
    draw, to_below, to_uniform              numbers of a stream
    SPANS                                   the column that says where rows come from
    locate_stretches, single_spans, span_lists, cut_lists, join_lists       its values

A collator makes the arguments of a model:

    Collator, CollatorOptions, Padding      what it derives from, and is given
    Samples, Rows, Batch                    what is read, and what becomes of it
    pad, attention_mask                     lists as matrices
    refuse_others                           refuses options that the collator does not take

An input format reads documents, and an output format writes and reads rows:

    CorpusFormat, FileRange, RecordCollector, DocumentBatch, ReadCounts
    ShardFormat, ShardWriter, OutputOptions, Columns, Sinks, Sources, arrow_schema, LONGEST_ROW

Tests of all of these:

    check_objective, check_input_format, check_output_format, small_tokenizer

A mistake of a user is a `corpusmill.UserError`. A filter and a rule of words are plain functions.
"""

from typing import TYPE_CHECKING

from corpusmill.lazy_names import lazy_names

if TYPE_CHECKING:
    from corpusmill.arrays import ragged as ragged
    from corpusmill.arrays.columns import ANY_LENGTH as ANY_LENGTH
    from corpusmill.arrays.columns import LONGEST_ROW as LONGEST_ROW
    from corpusmill.arrays.columns import NO_PAD as NO_PAD
    from corpusmill.arrays.columns import Column as Column
    from corpusmill.arrays.columns import Role as Role
    from corpusmill.arrays.columns import arrow_schema as arrow_schema
    from corpusmill.arrays.kernel_cache import njit as njit
    from corpusmill.arrays.randomness import derive_keys as derive_keys
    from corpusmill.arrays.randomness import draw as draw
    from corpusmill.arrays.randomness import purpose_of as purpose_of
    from corpusmill.arrays.randomness import to_below as to_below
    from corpusmill.arrays.randomness import to_uniform as to_uniform
    from corpusmill.corpus.batches import DocumentBatch as DocumentBatch
    from corpusmill.corpus.batches import FileRange as FileRange
    from corpusmill.corpus.batches import ReadCounts as ReadCounts
    from corpusmill.corpus.batches import UnreadableError as UnreadableError
    from corpusmill.corpus.document_options import DocumentOptions as DocumentOptions
    from corpusmill.corpus.document_options import TextMaker as TextMaker
    from corpusmill.corpus.records.record_documents import RecordCollector as RecordCollector
    from corpusmill.corpus.registry import CorpusFormat as CorpusFormat
    from corpusmill.formats.output_options import OutputOptions as OutputOptions
    from corpusmill.formats.shard_formats import Columns as Columns
    from corpusmill.formats.shard_formats import DataSetContents as DataSetContents
    from corpusmill.formats.shard_formats import ShardFormat as ShardFormat
    from corpusmill.formats.shard_formats import ShardWriter as ShardWriter
    from corpusmill.formats.shard_formats import Sinks as Sinks
    from corpusmill.formats.shard_formats import Sources as Sources
    from corpusmill.objectives.columns import SPANS as SPANS
    from corpusmill.objectives.examples.row_spans import cut_lists as cut_lists
    from corpusmill.objectives.examples.row_spans import join_lists as join_lists
    from corpusmill.objectives.examples.row_spans import locate_stretches as locate_stretches
    from corpusmill.objectives.examples.row_spans import single_spans as single_spans
    from corpusmill.objectives.examples.row_spans import span_lists as span_lists
    from corpusmill.objectives.examples.windows import cut_windows as cut_windows
    from corpusmill.objectives.masking.masked_lm import Masker as Masker
    from corpusmill.objectives.objective import Objective as Objective
    from corpusmill.objectives.objective import Repeat as Repeat
    from corpusmill.objectives.objective_options import ObjectiveOptions as ObjectiveOptions
    from corpusmill.objectives.objective_options import Preset as Preset
    from corpusmill.objectives.objective_options import SuitedTokenizer as SuitedTokenizer
    from corpusmill.objectives.tokenized_documents import measure_sentences as measure_sentences
    from corpusmill.objectives.tokenized_documents import unpack_documents as unpack_documents
    from corpusmill.reading.collate.collators import CollatorOptions as CollatorOptions
    from corpusmill.reading.collate.collators import Padding as Padding
    from corpusmill.reading.collate.collators import attention_mask as attention_mask
    from corpusmill.reading.collate.collators import pad as pad
    from corpusmill.reading.collate.collators import refuse_others as refuse_others
    from corpusmill.reading.data_set import Samples as Samples
    from corpusmill.reading.rows import Batch as Batch
    from corpusmill.reading.rows import Collator as Collator
    from corpusmill.reading.rows import Rows as Rows
    from corpusmill.settings.constraints import Needs as Needs
    from corpusmill.settings.constraints import Range as Range
    from corpusmill.testing import check_input_format as check_input_format
    from corpusmill.testing import check_objective as check_objective
    from corpusmill.testing import check_output_format as check_output_format
    from corpusmill.testing import small_tokenizer as small_tokenizer
    from corpusmill.tokenization.text_cuts import TextCuts as TextCuts
    from corpusmill.tokenization.text_cuts import TextMarks as TextMarks
    from corpusmill.tokenization.tokenizer_file import SpecialTokens as SpecialTokens
    from corpusmill.tokenization.tokenizer_file import Vocabulary as Vocabulary
else:
    __getattr__, __dir__ = lazy_names(__name__)

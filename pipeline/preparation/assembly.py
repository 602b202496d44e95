"""From checked options to a job: what is known before the first record is read."""

from collections.abc import Sequence
from dataclasses import asdict
from importlib.metadata import version

import numpy as np
from apache_beam.io.filesystems import FileSystems

from corpusmill.corpus.input_formats import FORMATS, reads_in_ranges
from corpusmill.corpus.options import DocumentOptions
from corpusmill.corpus.sentence_splitting import splitter_of
from corpusmill.dataset.accounting import Expected
from corpusmill.dataset.manifest import (
    TOKENIZER,
    CorpusEntry,
    Manifest,
    ObjectiveEntry,
    OutputEntry,
    SourceFile,
    TokenizerEntry,
)
from corpusmill.errors import UserError
from corpusmill.formats.options import OutputOptions
from corpusmill.formats.shard_formats import FORMATS as SHARD_FORMATS
from corpusmill.formats.shard_formats import resolve
from corpusmill.layout.length_bins import LengthBin, cut_lengths
from corpusmill.layout.placement import Layout, count_validation_shards
from corpusmill.objectives.objective import Objective, ObjectiveOptions
from corpusmill.tokenization.tokenizer_file import TokenizerFile
from corpusmill.tokenization.words.word_marks import marked_dtype
from corpusmill.tokenization.words.words import load_words
from pipeline.graph import Job
from pipeline.options import MAX_SHARDS, DatasetOptions
from pipeline.preparation.inputs import InputFile, absolute
from pipeline.preparation.run_folder import RunFolder
from pipeline.runners.launch import Launch
from transforms.commit import CommitOptions
from transforms.plan import FILE_BYTES, Plan, cut_ranges, group_ranges, write_plan
from transforms.shuffle import plan_routes
from transforms.storage.files import create_file
from transforms.tokenize import Tokenizing

# By default a shard for each 256 MB of examples, which take about 0.8 bytes a byte of text and
# repeat.
_TEXT_BYTES_PER_SHARD = 320 * 10**6

# An estimate: two bytes a token, and four or five bytes of text.
_STORED_BYTES_PER_TEXT_BYTE = 0.5

# Compressed text is longer than its file.
_EXPANSION = 4


def estimate_read_bytes(files: Sequence[InputFile]) -> int:
    """Bytes that will be counted as read, exact for files that are not compressed as a whole."""
    return sum(map(_cost_of, files))


def estimate_text_bytes(files: Sequence[InputFile], documents: DocumentOptions) -> int:
    """Bytes of text, exact for plain files.

    Args:
        files: the input.
        documents: with a format.
    """
    compresses = FORMATS[documents.input_format].compresses
    return estimate_read_bytes(files) * (_EXPANSION if compresses else 1)


def lay_out(options: DatasetOptions, objective: Objective, text_bytes: int) -> Layout:
    """How the examples are spread, from the options and the input's size alone."""
    default = round(text_bytes * objective.repeats / _TEXT_BYTES_PER_SHARD)
    default = min(max(1, default), MAX_SHARDS)
    train = options.num_shards or default
    validation = count_validation_shards(train, options.validation_share)
    return Layout(options.seed, train, validation)


def assemble_job(
    objective_options: ObjectiveOptions,
    tokenizer: TokenizerFile,
    documents: DocumentOptions,
    dataset: DatasetOptions,
    output_options: OutputOptions,
    launch: Launch,
    files: Sequence[InputFile],
    folder: RunFolder,
    memoize: bool = True,
) -> Job:
    """Everything the graph is made from; plan and tokenizer are put where workers find them."""
    objective = objective_options.bind(tokenizer)
    output_options = resolve(output_options, objective.columns)
    bins = _cut_bins(objective, output_options)
    text_bytes = estimate_text_bytes(files, documents)
    layout = lay_out(dataset, objective, text_bytes)
    range_bytes = folder.range_bytes or launch.choose_range_bytes(_reading_cost(files))
    plan = _plan(files, documents, range_bytes, folder.path)
    tokenizing = Tokenizing(
        FileSystems.join(folder.path, TOKENIZER),
        _stored_dtype(objective, tokenizer).name,
        memoize,
        tokenizer.options.special_tokens_in_text,
        objective.words,
    )
    with create_file(tokenizing.path) as stream:
        stream.write(tokenizer.json.encode())
    stored_bytes = text_bytes * _STORED_BYTES_PER_TEXT_BYTE
    share = dataset.validation_share
    routes = plan_routes(layout, share, objective.repeats, plan.tasks, round(stored_bytes))
    return Job(
        objective=objective,
        plan=plan,
        range_bytes=range_bytes,
        documents=documents,
        corpus_bytes=text_bytes,
        routes=routes,
        output_options=output_options,
        tokenizing=tokenizing,
        temp_folder=folder.path,
        header=_header(
            objective, objective_options, tokenizer, documents, dataset, output_options, files
        ),
        commit=_plan_commit(objective, dataset, output_options, files, folder, plan, layout, bins),
    )


def _cut_bins(objective: Objective, options: OutputOptions) -> tuple[LengthBin, ...]:
    bins = cut_lengths(objective.columns, options.bin_size)
    if bins and options.is_padded:
        raise UserError(
            f"--bin-size {options.bin_size}",
            f"rows that are padded to one width (the padding of {options.output_format} files here "
            "is max_length) are as long in every bin",
            "Add --padding do_not_pad, or leave it out",
        )
    return bins


def _plan(
    files: Sequence[InputFile], documents: DocumentOptions, range_bytes: int, folder: str
) -> Plan:
    in_ranges = reads_in_ranges(documents)
    parts = [(of.path, of.name, of.bytes, of.splittable and in_ranges) for of in files]
    sizes = [_cost_of(of) for of in files]
    tasks = group_ranges(cut_ranges(parts, range_bytes), sizes, range_bytes)
    return write_plan(FileSystems.join(folder, "plan.jsonl"), tasks)


def _cost_of(file: InputFile) -> int:
    """Bytes that reading a file whole is worth."""
    return file.bytes if file.splittable else file.bytes * _EXPANSION


def _reading_cost(files: Sequence[InputFile]) -> int:
    return estimate_read_bytes(files) + FILE_BYTES * len(files)


def _plan_commit(
    objective: Objective,
    dataset: DatasetOptions,
    output_options: OutputOptions,
    files: Sequence[InputFile],
    folder: RunFolder,
    plan: Plan,
    layout: Layout,
    bins: tuple[LengthBin, ...],
) -> CommitOptions:
    shard_format = SHARD_FORMATS[output_options.output_format]
    plain_bytes = sum(f.bytes for f in files) if all(f.splittable for f in files) else -1
    return CommitOptions(
        output=absolute(dataset.output),
        temp_folder=folder.path,
        tokenizer_path=FileSystems.join(folder.path, TOKENIZER),
        record_path=folder.record_path,
        claim=folder.token,
        suffixes=shard_format.suffixes(output_options),
        joined=shard_format.joined,
        expected=Expected(plan.ranges, plain_bytes, layout.shards, objective.repeats),
        max_rejects=dataset.max_rejects,
        bins=bins,
        shard_name=output_options.shard_name,
    )


def _stored_dtype(objective: Objective, tokenizer: TokenizerFile) -> np.dtype:
    """The type of the ids of documents and pool."""
    return marked_dtype(tokenizer.vocab_size) if objective.words else tokenizer.token_dtype


def _header(
    objective: Objective,
    objective_options: ObjectiveOptions,
    tokenizer: TokenizerFile,
    documents: DocumentOptions,
    dataset: DatasetOptions,
    output_options: OutputOptions,
    files: Sequence[InputFile],
) -> Manifest:
    words = load_words(objective.words)
    return Manifest(
        corpusmill_version=version("corpusmill"),
        objective=ObjectiveEntry(objective.name, asdict(objective_options), objective.repeats),
        seed=dataset.seed,
        tokenizer=TokenizerEntry.from_tokenizer(tokenizer, str(words) if words else None),
        output=OutputEntry(output_options.output_format, output_options, dataset.validation_share),
        columns=objective.columns,
        corpus=CorpusEntry(
            options=asdict(documents),
            sentence_splitter=splitter_of(documents.language),
            bytes=sum(file.bytes for file in files),
            files=tuple(SourceFile(file.name, file.bytes) for file in files),
        ),
    )

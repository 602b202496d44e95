"""The passages of an evaluation set, which documents must not overlap with."""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import replace

from corpusmill.corpus.batches import FileRange
from corpusmill.corpus.document_options import DocumentOptions
from corpusmill.corpus.filters.overlaps import Passages
from corpusmill.corpus.input_formats import read_file, resolve_format
from corpusmill.dataset.manifest_entries import Evaluation, EvaluationFile
from corpusmill.errors import UserError, option
from pipeline.recipe.inputs import InputFile, list_inputs
from transforms.corpus.listed import open_listed

_OPTION = "drop_overlap_with"


def read_evaluation(
    paths: Sequence[str], text_field: str, temp_folder: str
) -> tuple[Passages, Evaluation]:
    """Read an evaluation set: a passage is a line, or the text of a record.

    Args:
        paths: files, globs, folders, or names of data sets on the hub.
        text_field: the field of records that holds the text.
        temp_folder: a folder for data sets that are fetched from the hub.

    Returns:
        The passages, and what the manifest says of them.

    Raises:
        UserError: a file cannot be read, or holds what cannot be read; there are too many passages,
            or only short ones.
    """
    try:
        files = list_inputs(paths, temp_folder)
        texts = (text for file in files for text in _read_passages(file, text_field))
        passages = Passages.from_texts(texts)
    except UserError as error:
        # The evaluation set is read as an input is.
        named = error.renamed(
            "input", lambda path: option(_OPTION, path) if path else option(_OPTION)
        )
        raise named.renamed(_OPTION, lambda path: option(_OPTION, path or paths)) from None
    digest = hashlib.sha256(passages.runs.astype("<u8").tobytes()).hexdigest()
    entries = tuple(EvaluationFile(file.name, file.bytes, _digest(file)) for file in files)
    entry = Evaluation(entries, passages.compared, passages.ignored, len(passages.runs), digest)
    return passages, entry


def _read_passages(file: InputFile, text_field: str) -> Iterator[str]:
    options = DocumentOptions(text_field=text_field, sentence_rule="document")
    options = resolve_format(options, {file.path: file.content})
    if options.input_format == "text":
        options = replace(options, input_format="lines")
    with open_listed(file.planned) as raw:
        for batch in read_file(raw, FileRange(file.name, 0, options)):
            for reject in batch.rejects:
                cause = f"byte {reject.offset} begins what cannot be read ({reject.reason})"
                cure = (
                    "Repair the file, or name the field that holds its text "
                    f"({option('text_field')})"
                )
                raise UserError(option(_OPTION, file.name), cause, cure)
            yield from batch.documents.column("sentences").flatten().to_pylist()


def _digest(file: InputFile) -> str:
    digest = hashlib.sha256()
    with open_listed(file.planned) as stream:
        while block := stream.read(2**20):
            digest.update(block)
    return digest.hexdigest()

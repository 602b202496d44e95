"""The passages of an evaluation set, from which documents must not take a run of words."""

import hashlib
from collections.abc import Iterator, Sequence

from corpusmill.corpus.decompression import open_decompressed
from corpusmill.corpus.file_range import FileRange
from corpusmill.corpus.filters.overlaps import Passages
from corpusmill.corpus.input_formats import guess_format, read_corpus
from corpusmill.corpus.options import DocumentOptions
from corpusmill.dataset.filtering import Evaluation, EvaluationFile
from corpusmill.errors import UserError
from pipeline.preparation.inputs import InputFile, list_inputs
from transforms.storage.files import open_file

_FLAG = "--drop-overlap-with"


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
        value = error.value.replace("--input", _FLAG)
        value = f"{_FLAG} {' '.join(paths)}" if value == _FLAG else value
        raise UserError(value, error.cause, error.cure) from None
    digest = hashlib.sha256(passages.runs.astype("<u8").tobytes()).hexdigest()
    entries = tuple(EvaluationFile(file.name, file.bytes, _digest(file)) for file in files)
    entry = Evaluation(entries, passages.compared, passages.ignored, len(passages.runs), digest)
    return passages, entry


def _read_passages(file: InputFile, text_field: str) -> Iterator[str]:
    guessed = guess_format(file.name)
    options = DocumentOptions(
        input_format="lines" if guessed == "text" else guessed,
        text_field=text_field,
        sentence_rule="document",
    )
    with open_file(file.path) as raw:
        part = FileRange(file.name, 0, options)
        for batch in read_corpus(open_decompressed(raw, file.path), part):
            for reject in batch.rejects:
                cause = f"byte {reject.offset} begins what cannot be read ({reject.reason})"
                cure = "Repair the file, or name the field that holds its text (--text-field)"
                raise UserError(f"{_FLAG} {file.name}", cause, cure)
            yield from batch.documents.column("sentences").flatten().to_pylist()


def _digest(file: InputFile) -> str:
    digest = hashlib.sha256()
    with open_file(file.path) as stream:
        while block := stream.read(2**20):
            digest.update(block)
    return digest.hexdigest()

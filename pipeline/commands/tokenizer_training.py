"""How a tokenizer is trained: what is read, and the files that are written."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread

from tokenizers import Tokenizer

from corpusmill.commands.command import Call
from corpusmill.commands.files import Files
from corpusmill.console.terminal import hide_native_errors
from corpusmill.corpus.batches import DocumentBatch, ReadCounts
from corpusmill.corpus.decompression import open_decompressed
from corpusmill.corpus.file_range import FileRange
from corpusmill.corpus.input_formats import read_corpus
from corpusmill.corpus.options import DocumentOptions
from corpusmill.errors import UserError, catch_panics
from corpusmill.tokenization.training.models import MODELS, model_options
from corpusmill.tokenization.training.sample import SampleOptions, draw_documents
from pipeline.commands.train_tokenizer import TrainTokenizer
from pipeline.console.progress import ReadingLine, show_reading
from pipeline.preparation.inputs import (
    InputFile,
    absolute,
    is_local,
    sum_costs,
)
from pipeline.preparation.recipe import estimate_text_bytes, find_documents
from pipeline.preparation.records import Records
from pipeline.preparation.temporary_folder import temporary_folder
from transforms.storage.file_systems import join_path, split_path
from transforms.storage.files import file_exists, open_file


class _Corpus:
    """The sentences of a corpus, or of a sample of it, and counts of what was read.

    Attributes:
        bytes: the size of the input, as `sum_costs`.
        counts: what was read so far.
        sampled: the number of documents that are in the sample.
        rejects: the number of rejects so far, by reason.
    """

    def __init__(
        self, files: Sequence[InputFile], options: DocumentOptions, sample: SampleOptions
    ) -> None:
        self._files, self._options, self._sample = files, options, sample
        self.bytes = sum_costs(files)
        self._share = sample.share(estimate_text_bytes(files, options))
        self.counts = ReadCounts()
        self.sampled = 0
        self.rejects: Counter[str] = Counter()

    def read(self, line: ReadingLine) -> Iterator[list[str]]:
        """Yield batches of sentences.

        Raises:
            UserError: the input or the sample holds no document.
        """
        for index, file in enumerate(self._files):
            with open_file(file.path) as raw:
                stream = open_decompressed(raw, file.path)
                for batch in read_corpus(stream, FileRange(file.path, index, self._options)):
                    line.add(batch.counts.bytes)
                    yield self._sample_sentences(batch)
        if not self.counts.documents:
            raise self._refuse_all()
        if not self.sampled:
            share = self._sample.sample
            flag = (
                f"--sample-bytes {self._sample.sample_bytes}"
                if share is None
                else f"--sample {share}"
            )
            cause = f"the sample has none of the {self.counts.documents:,} documents"
            raise UserError(flag, cause, "Give a larger value")

    def _sample_sentences(self, batch: DocumentBatch) -> list[str]:
        documents = batch.documents
        self.counts += batch.counts
        self.rejects.update(reject.reason for reject in batch.rejects)
        if self._share < 1:
            ids = documents.column("document").to_numpy()
            documents = documents.filter(draw_documents(ids, self._share, self._sample.seed))
        self.sampled += documents.num_rows
        sentences: list[str] = documents.column("sentences").flatten().to_pylist()
        return sentences

    def describe(self) -> Iterator[str]:
        """Describe the parts of the corpus that the tokenizer was not trained on."""
        if self._share < 1:
            yield f"a sample: {self.sampled:,} of {self.counts.documents:,} documents"
        if self.rejects:
            yield f"left out because they cannot be read: {self._list_rejects()}"

    def _list_rejects(self) -> str:
        return ", ".join(f"{count:,} {reason}" for reason, count in self.rejects.items())

    def _refuse_all(self) -> UserError:
        units = self.counts.lines + self.counts.rows
        rejects = f", of which these cannot be read: {self._list_rejects()}" if self.rejects else ""
        cure = "The input holds only blank lines and titles: check --input and --document-rule"
        if self.rejects:
            cure = "Repair the input, or check --input-format and --text-field"
        cause = f"it has no text to train with: {units:,} lines and rows were read{rejects}"
        return UserError("--input", cause, cure)


def train_tokenizer(command: TrainTokenizer, call: Call) -> int:
    """Train a tokenizer and write its file."""
    for remark in run_training(command, call):
        call.console.print(remark)
    return 0


def run_training(command: TrainTokenizer, call: Call, records: Records | None = None) -> list[str]:
    """Train a tokenizer and write its file.

    Args:
        command: the options.
        call: how the command was called.
        records: what is read in place of files; None where files are named.

    Returns:
        What was trained and where it is, in words.
    """
    model, options = MODELS[command.model], model_options(command.model, command.training)
    _check_outputs(command, model.files)
    with temporary_folder(split_path(absolute(command.output))[0], None) as temp_folder:
        files, documents = find_documents(
            command.input, command.documents, temp_folder, call.console, records
        )
        corpus = _Corpus(files, documents, command.sample)
        with show_reading(corpus.bytes, command.progress) as line:

            def sentences() -> Iterator[list[str]]:
                yield from corpus.read(line)
                line.begin_step(f"training {command.model}")

            with catch_panics("the trainer"), hide_native_errors():
                content = _run_apart(lambda: model.train(sentences(), options))
    tokenizer = Tokenizer.from_str(content)
    if command.save_model is not None:
        _save_model(tokenizer, command.save_model, call.files)
    call.files.write(command.output, content.encode())
    return [*corpus.describe(), *_describe(command, tokenizer, options.vocab_size)]


def _run_apart(train: Callable[[], str]) -> str:
    """Train in another thread: libraries do not look for Ctrl-C, which only this one hears."""
    result: Future[str] = Future()

    def run() -> None:
        try:
            result.set_result(train())
        except BaseException as error:  # also a panic
            result.set_exception(error)

    Thread(target=run, daemon=True).start()
    return result.result()


def _check_outputs(command: TrainTokenizer, files: tuple[str, ...]) -> None:
    output = Path(absolute(command.output))
    if is_local(command.output) and output.exists() and not output.is_file():
        cause = "it is a folder" if output.is_dir() else "it is not a regular file"
        raise UserError(f"--output {command.output}", cause, "Name a file, such as tokenizer.json")
    if not command.replace and file_exists(absolute(command.output)):
        raise UserError(
            f"--output {command.output}", "the file exists", "Name another file, or add --replace"
        )
    if command.save_model is None:
        return
    folder, cause, cure = absolute(command.save_model), "", "Give another folder"
    paths = {name: join_path(folder, name) for name in files}
    if is_local(folder) and _is_blocked(Path(folder)):
        cause = "a file is in its place"
    elif absolute(command.output) in {folder, *paths.values()}:
        cause = f"--output {command.output} has the same path"
    elif present := [name for name, path in paths.items() if file_exists(path)]:
        cause = "" if command.replace else f"it already has {' and '.join(present)}"
        cure = "Give another folder, or add --replace"
    if cause:
        raise UserError(f"--save-model {command.save_model}", cause, cure)


def _is_blocked(folder: Path) -> bool:
    """Whether a folder cannot be made, as something else has its path or that of a parent."""
    return any(path.exists() and not path.is_dir() for path in (folder, *folder.parents))


def _save_model(tokenizer: Tokenizer, folder: str, written: Files) -> None:
    root = absolute(folder)
    with TemporaryDirectory() as temporary:
        for path in sorted(map(Path, tokenizer.model.save(temporary))):
            written.write(join_path(root, path.name), path.read_bytes())


def _describe(command: TrainTokenizer, tokenizer: Tokenizer, wanted: int | None) -> Iterator[str]:
    """Describe what was trained and where it is, and first warn if it is smaller than wanted."""
    size = tokenizer.get_vocab_size(with_added_tokens=True)
    if wanted is not None and size < wanted:
        yield (
            f"warning: the vocabulary has {size:,} tokens, fewer than --vocab-size {wanted:,}: "
            "the corpus does not give more"
        )
    yield f"{command.output}: {command.model} tokenizer with {size:,} tokens"
    if command.save_model is not None:
        files = " and ".join(MODELS[command.model].files)
        yield f"{command.save_model}: the model's {files}"

"""How a tokenizer is trained: what is read, and the files that are written."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread
from typing import Any

from rich.console import Console
from tokenizers import Tokenizer

from corpusmill.commands.command import Call
from corpusmill.console.terminal import hide_native_errors
from corpusmill.corpus.document_options import DocumentOptions, TextMaker, make_texts
from corpusmill.corpus.filters.functions import FilterOptions, load_filters
from corpusmill.corpus.records.record_documents import NoTextError
from corpusmill.errors import UserError, catch_panics, count_things, option
from corpusmill.location import Location
from corpusmill.objectives.registry import OBJECTIVES
from corpusmill.tokenization.sources.read import read_tokenizer
from corpusmill.tokenization.tokenizer_file import TokenizerFile, describe_tokenizer
from corpusmill.tokenization.training.extension import extension_options
from corpusmill.tokenization.training.models import MODELS, model_options
from corpusmill.tokenization.training.training_options import TrainingOptions
from pipeline.commands.train_tokenizer import GivenOptions, TrainTokenizer
from pipeline.console.progress import LAST_STEP, Counters, Work, show_progress
from pipeline.console.run_log import log_event
from pipeline.folders.file_run import FileRun
from pipeline.jobs.word_counting import (
    Counted,
    SampledCorpus,
    check_sample,
    count_here,
    describe_sample,
)
from pipeline.recipe.inputs import InputFile, read_bytes, read_evaluation
from pipeline.recipe.probe import prove_tokenizer
from pipeline.recipe.sources import Corpus, find_corpus
from pipeline.runners.engine import Engine
from pipeline.runners.launch import Launch, list_places, prepare_launch
from pipeline.runners.local.engine import LocalEngine
from transforms.recovery import Workplace
from transforms.storage.files import file_exists, locate, locate_any


def train_tokenizer(command: TrainTokenizer, call: Call) -> int:
    """Train a tokenizer and write its file."""
    for remark in run_training(command, call):
        call.console.print(remark)
    return 0


def run_training(command: TrainTokenizer, call: Call, records: Any = None) -> list[str]:
    """Train a tokenizer and write its file.

    Args:
        command: the options.
        call: how the command was called.
        records: what is read in place of files; None where files are named.

    Returns:
        What was trained and where it is, in words.
    """
    model, tokens = command.suited
    given: GivenOptions = {"special_tokens": tokens} if tokens else {}
    filters, extended = command.filters, _read_extended(command)
    load_filters(filters.filter)
    choose = partial(extension_options, extended) if extended else partial(model_options, model)
    try:
        options = choose({**given, **command.training})
    except UserError as error:
        if given.keys() - command.training:
            error.advise(f"; {option('for_', command.for_)} chooses the model and its tokens")
        raise
    output = locate(command.output)
    saved = locate(command.save_model) if command.save_model else None
    config = None  # by which transformers knows the special tokens of a tokenizer.json
    if extended and output.url.endswith("/tokenizer.json"):
        config = locate(output.url.removesuffix(".json") + "_config.json")
    launch = _prepare_launch(command, call)
    run = FileRun(output, launch.temp_location)
    _check_outputs(command, run, saved, options.files)
    if config:
        _check_new(command, run, config)
    with run.open(command.resume, command.replace):
        sources, files, documents = _find_corpus(command, run.path, call.console, records)
        _refuse_inputs([output, *([saved] if saved else [])], files)
        compared, text_field = filters.drop_overlap_with, command.documents.text_field
        evaluation = read_evaluation(compared, text_field, run.path) if compared else None
        corpus = SampledCorpus(files, documents, command.drawn, sources, filters, evaluation)
        with catch_panics("the trainer"), hide_native_errors():
            counted = _count_by_job(command, corpus, options, launch, run)
            content, remarks = _train(command, corpus, options, counted)
        tokenizer = Tokenizer.from_str(content)
        parts = _list_model(tokenizer, saved) if saved else {}
        if extended and config:
            parts[config] = describe_tokenizer(content, extended.special, extended.chat_template)
        run.put({**parts, output: content.encode()})
    size = 1 + max(tokenizer.get_vocab().values())
    log_event("run_finished", "the tokenizer is trained", {"status": 0, "tokens": size})
    wanted = options.vocab_size
    return [*remarks, *_describe_trained(command, size, wanted, extended)]


def _read_extended(command: TrainTokenizer) -> TokenizerFile | None:
    """Read the tokenizer that is extended; None if one is trained from the beginning.

    Raises:
        UserError: there is no such tokenizer, its own library gives other ids, or another option
            does not go with it.
    """
    if command.extend is None:
        return None
    extend = option("extend", command.extend)
    for name in ("model", "for_", "save_model"):
        if (value := getattr(command, name)) is not None:
            cause = f"it does not go with {extend}, which says what is trained"
            raise UserError(option(name, value), cause, "Leave one of the two out")
    try:
        with hide_native_errors():
            tokenizer = read_tokenizer(command.extend, read_bytes)
            prove_tokenizer(tokenizer, [], Console(quiet=True))
    except UserError as error:
        raise error.about(extend) from None
    return tokenizer


def _find_corpus(
    command: TrainTokenizer, temp_folder: str, console: Console, records: Any
) -> Corpus:
    """List the input, and find its format, as `find_corpus`.

    It is read as the objective reads it, which may also make texts of records that have none.
    """
    objective = OBJECTIVES[command.for_] if command.for_ else None
    maker = objective.tokenizer_texts() if objective else None
    rules = objective().choose_documents(DocumentOptions()) if objective else DocumentOptions()

    def find(maker: TextMaker | None) -> Corpus:
        def choose(own: Mapping[str, Any]) -> DocumentOptions:
            documents = replace(command.documents, **own)
            documents.refuse_groups()
            return make_texts(documents.or_else(rules.document_rule, rules.sentence_rule), maker)

        return find_corpus(command.corpus, choose, temp_folder, console, records)

    try:
        return find(None)
    except NoTextError as error:
        if records is not None or maker is None or maker.explain_lack(error.names):
            raise
    return find(maker)


def _refuse_inputs(outputs: Sequence[Location], files: Sequence[InputFile]) -> None:
    """Refuse to write over what is read, whatever its name there is.

    Raises:
        UserError: an output is an input.
    """
    for file in files:
        read = locate_any(file.path)
        for output in outputs:
            if read.is_within(output):
                cause = f"it is the input {file.name}"
                raise UserError(option("output", output), cause, "Name another file")


# Of these the counts tell whether they are possible: a run is resumed with others.
_OF_WHAT_IS_COUNTED = {
    "vocab_size", "min_frequency", "limit_alphabet", "character_coverage", "max_distinct_words",
    "max_distinct_bytes", "max_trained_bytes",
}  # fmt: skip


def _count_by_job(
    command: TrainTokenizer,
    corpus: SampledCorpus,
    options: TrainingOptions,
    launch: Launch,
    run: FileRun,
) -> Counted | None:
    """Count the words of a corpus by a job; None for a corpus that is counted in this process."""
    if _is_small(corpus, launch.engine):
        if command.resume:
            refused = f"{option('output', command.output)} {option('resume')}"
            cause, cure = "so small a corpus is counted at once", f"Leave {option('resume')} out"
            raise UserError(refused, cause, cure)
        return None
    # Beam takes a second to import.
    from pipeline.jobs.counting_job import plan_counting, run_counting  # noqa: PLC0415

    identity = [
        command.suited.model,
        {name: value for name, value in asdict(options).items() if name not in _OF_WHAT_IS_COUNTED},
        asdict(corpus.documents),
        command.corpus.source,
        asdict(corpus.filters),
        corpus.evaluation and corpus.evaluation[1].sha256,
        asdict(corpus.sample) | {"sample_bytes": corpus.sample.bytes},
        [(file.name, file.bytes, file.modified) for file in corpus.files],
        asdict(command.run.task_sizes),
    ]
    run.identify(identity, command.resume)
    place = Workplace(run.path, sizes=command.run.task_sizes)
    job = plan_counting(corpus, options, launch.engine, place)
    return run_counting(job, launch)


# How many times as fast words are counted as examples are built; workers also write what they have
# counted, to be read and added up. No higher number is taken because of memory: in text without
# spaces most words are distinct, and this process holds all of them.
_COUNTING_SPEED = 4


def _is_small(corpus: SampledCorpus, engine: Engine) -> bool:
    """Whether a corpus is counted in this process, and not by a job."""
    is_here = isinstance(engine, LocalEngine) and corpus.filters == FilterOptions()
    return is_here and not (
        engine.count_workers(corpus.text_bytes // _COUNTING_SPEED) or engine.flags
    )


def _train(
    command: TrainTokenizer,
    corpus: SampledCorpus,
    options: TrainingOptions,
    counted: Counted | None,
) -> tuple[str, list[str]]:
    """Train with counted words, or count them here.

    Returns:
        The tokenizer.json, and remarks.
    """
    remarks, counters = list[str](), Counters()
    work = Work(corpus.read_bytes, repeats=0, last_step=f"training {command.suited.model}")
    with show_progress(counters, work, command.run.progress, command.log):

        def train() -> str:
            done = counted or count_here(corpus, options, counters)
            check_sample(done, corpus)
            remarks.extend(describe_sample(done, corpus))
            remarks.extend(options.describe_limits(done.words))
            counters.update("here", {LAST_STEP: 1})
            return options.train(done.words)

        return _run_apart(train), remarks


def _prepare_launch(command: TrainTokenizer, call: Call) -> Launch:
    """Set up the engine.

    Raises:
        UserError: it cannot run the job.
    """
    run, log = command.run, command.log
    if not run.wait:
        cause = "it trains on what the job has counted"
        raise UserError(f"train-tokenizer {option('wait', False)}", cause, "Leave it out")
    places = list_places(command.corpus)
    if not run.temp_location:  # temporary files are beside the output
        places.append(("output", command.output))
    return prepare_launch(run, call.engine_arguments, places, call.console, log)


def _run_apart(work: Callable[[], str]) -> str:
    """Work in another thread: libraries do not look for Ctrl-C, which only this one hears."""
    result: Future[str] = Future()

    def run() -> None:
        try:
            result.set_result(work())
        except BaseException as error:  # also a panic
            result.set_exception(error)

    Thread(target=run, daemon=True).start()
    return result.result()


def _check_outputs(
    command: TrainTokenizer, run: FileRun, saved: Location | None, files: tuple[str, ...]
) -> None:
    output = run.output
    path = output.local_path()
    if path and path.exists() and not path.is_file():
        cause = "it is a folder" if path.is_dir() else "it is not a regular file"
        raise UserError(option("output", output), cause, "Name a file, such as tokenizer.json")
    _check_new(command, run, output)
    if saved is None:
        return
    folder = saved.local_path()
    cause, cure = "", "Give another folder"
    around = (folder, *folder.parents) if folder else ()
    if any(path.exists() and not path.is_dir() for path in around):
        cause = "a file is in its place"
    elif output in [saved, *(saved / name for name in files)]:
        cause = f"{option('output', output)} has the same path"
    elif present := [
        name
        for name in files
        if file_exists((saved / name).url) and not run.has_placed(saved / name)
    ]:
        cause = "" if command.replace else f"it already has {' and '.join(present)}"
        cure = f"Give another folder, or add {option('replace', True)}"
    if cause:
        raise UserError(option("save_model", saved), cause, cure)


def _check_new(command: TrainTokenizer, run: FileRun, place: Location) -> None:
    if not command.replace and file_exists(place.url) and not run.has_placed(place):
        cure = f"Name another file, or add {option('replace', True)}"
        raise UserError(option("output", place), "the file exists", cure)


def _list_model(tokenizer: Tokenizer, folder: Location) -> dict[Location, bytes]:
    """Return the files of a tokenizer's model, and where they will be."""
    with TemporaryDirectory() as temporary:
        paths = sorted(map(Path, tokenizer.model.save(temporary)))
        return {folder / path.name: path.read_bytes() for path in paths}


def _describe_trained(
    command: TrainTokenizer, size: int, wanted: int | None, extended: TokenizerFile | None
) -> Iterator[str]:
    """Describe what was trained and where it is, and first warn if it is smaller than wanted."""
    if wanted is not None and size < wanted:
        yield (
            f"warning: the vocabulary has {count_things(size, 'token')}, fewer than "
            f"--vocab-size {wanted:,}: "
            "the corpus does not give more"
        )
    if extended:
        first, resize = extended.vocab_size, "resize the model's embeddings and train the rows from"
        yield f"{command.output}: {extended.name} with {size - first:,} new tokens, {size:,} in all"
        yield f"the first new id is {first}: {resize} {first} on"
        return
    yield f"{command.output}: {command.suited.model} tokenizer with {count_things(size, 'token')}"
    if command.save_model is not None:
        files = " and ".join(MODELS[command.suited.model].files)
        yield f"{command.save_model}: the model's {files}"

"""Every job at its smallest and at its full size, as each engine gets it."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import cache, partial
from hashlib import sha256
from pathlib import Path
from typing import Literal

import apache_beam as beam
import pytest
from apache_beam.portability.api import beam_runner_api_pb2

from corpusmill.corpus.document_options import DocumentOptions
from corpusmill.corpus.filters.functions import FilterOptions
from corpusmill.formats.output_options import OutputOptions
from corpusmill.tokenization.training.models import WordPieceOptions
from pipeline.assembly import assemble_job
from pipeline.commands.train_tokenizer import SampleOptions
from pipeline.console.progress import Counters
from pipeline.graph import Job, build_dataset, measure_job
from pipeline.job_options import MAX_SHARDS, DatasetOptions, RunOptions
from pipeline.jobs.counting_job import count_corpus, plan_counting
from pipeline.jobs.editing import add_stages
from pipeline.jobs.verification import check_files
from pipeline.jobs.word_counting import SampledCorpus
from pipeline.recipe.inputs import InputFile
from pipeline.recipe.recipe import Recipe
from pipeline.recipe.sources import NamedSource
from pipeline.runners.beam_pipelines import new_pipeline
from pipeline.runners.dataflow import DataflowEngine
from pipeline.runners.engine import Run
from pipeline.runners.flink.engine import FlinkEngine
from pipeline.runners.local.engine import LocalEngine
from pipeline.runners.portable import PortableEngine
from tests.tools.job_server import serve_jobs
from tests.tools.loopback_cloud import SERVICE, keep_translations, serve_storage
from tests.tools.manifests import small_manifest
from tests.tools.proto_checks import LARGEST_PIPELINE, describe_pipeline, find_faults
from tests.tools.small_datasets import OBJECTIVES, bert_tokenizer, gpt_tokenizer, t5_tokenizer
from transforms.corpus.known_texts import Held
from transforms.corpus.plan import Plan
from transforms.editing import Edited, EditPlan
from transforms.elements import WrittenFile
from transforms.recovery import Workplace
from transforms.storage.checksums import StoredFile
from transforms.storage.files import locate
from transforms.verify import Checking

# Pipelines as the engines get them, without any worker.


# Gives a pipeline to an engine, and returns what the engine would run.
Translate = Callable[[Callable[[beam.Pipeline], None]], beam_runner_api_pb2.Pipeline]


@contextmanager
def serve_translations() -> Iterator[Mapping[str, Translate]]:
    """Yield what translates a pipeline for each engine, by its name, while the block lasts."""
    with ExitStack() as stack:
        stack.enter_context(serve_storage())
        jobs = stack.enter_context(serve_jobs())
        pool = ("--environment_type=EXTERNAL", "--environment_config=localhost:1")
        arguments = {
            DataflowEngine: (*SERVICE, "--dry_run=True"),
            FlinkEngine: (f"--job_endpoint={jobs.endpoint}", *pool),
            PortableEngine: (f"--job_endpoint={jobs.endpoint}", *pool),
        }
        runners = {kind: f"{kind.__name__.removesuffix('Engine')}Runner" for kind in arguments}

        def translate_for(kind: type[PortableEngine]) -> Translate:
            engine = kind(RunOptions(runner=runners[kind]), arguments[kind])

            def translate(build: Callable[[beam.Pipeline], None]) -> beam_runner_api_pb2.Pipeline:
                with keep_translations() as kept:
                    engine.submit_pipeline(Run(build, Counters()))
                return (kept or jobs.prepared).pop()

            return translate

        yield {runners[kind]: translate_for(kind) for kind in arguments}


Build = Callable[[beam.Pipeline], None]
ENGINES = ("DataflowRunner", "FlinkRunner", "PortableRunner")
BUCKET = "gs://corpus/in"
# What a server of gRPC takes in one request by default.
_REQUEST_BYTES = 4 * 2**20
TOKENIZERS = {"bert": bert_tokenizer, "gpt": gpt_tokenizer, "t5": t5_tokenizer}


@dataclass(frozen=True)
class Size:
    """How large a job is.

    Attributes:
        files: number of input files.
        shards: number of train shards.
        sources: number of sources; 0 for input without names.
        order: of the documents.
    """

    files: int = 1
    shards: int = 1
    sources: int = 0
    order: Literal["shuffled", "corpus"] = "shuffled"


# Of more files the plan is longer, but no stage another one.
SMALL, FULL = Size(), Size(20_000, MAX_SHARDS)
SIZES = {
    "small": SMALL,
    "one source": Size(1, 1, 1),
    "full": FULL,
    "2,000 sources": replace(FULL, sources=2000),
    "in the order of the corpus": replace(FULL, order="corpus"),
}


@pytest.fixture(scope="module")
def engines() -> Iterator[Mapping[str, Translate]]:
    with serve_translations() as engines:
        yield engines


@cache
def list_files(number: int) -> list[InputFile]:
    """Files of about ten megabytes, which need not exist."""
    return [
        InputFile(f"{BUCKET}/part-{file:06d}", 10 * 2**20 + file * 7919 % 2**20, f"part-{file:06d}")
        for file in range(number)
    ]


DOCUMENTS = DocumentOptions(input_format="text")


def list_sources(size: Size) -> list[NamedSource]:
    """Sources with names that no compression makes short."""
    files = list_files(size.files)
    names = [f"s{sha256(str(number).encode()).hexdigest()}" for number in range(size.sources)]
    share = size.files // max(1, size.sources)
    # Every second one is read in its own way.
    documents = [
        replace(DOCUMENTS, max_line_bytes=2**20 + number % 2) for number in range(len(names))
    ]
    return [
        NamedSource(name, (BUCKET,), 1.5, tuple(files[first : first + share]), first, {}, own)
        for name, first, own in zip(
            sorted(names), range(0, size.files, share), documents, strict=True
        )
    ]


def recipe_of(objective: str, size: Size) -> Recipe:
    """A build of one objective."""
    options = OBJECTIVES[objective]
    if size.order == "corpus":
        options = replace(options, **({"duplicates": 1} if hasattr(options, "duplicates") else {}))
    make_tokenizer = TOKENIZERS.get(objective.partition("_")[0], bert_tokenizer)
    tokenizer = make_tokenizer().with_roles(options.special_tokens)
    dataset = DatasetOptions(
        input=(BUCKET,), tokenizer="t", output="gs://corpus/out", validation_share=0.1,
        num_shards=size.shards, order=size.order,
    )  # fmt: skip
    return Recipe(
        dataset, options, tokenizer, DOCUMENTS, OutputOptions(),
        list_files(size.files), FilterOptions(drop_duplicates=True, drop_near_duplicates=0.8),
        sources=list_sources(size) if size.sources else (),
    )  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("jobs")


@cache
def assemble(objective: str, size: Size, folder: Path) -> Job:
    recipe = recipe_of(objective, size)
    return assemble_job(recipe, LocalEngine(RunOptions()), Workplace(str(folder)))


def job_of(objective: str, size: Size, folder: Path) -> Job:
    """A job; of the large ones, only that of BERT without sources is planned as a whole."""
    small = assemble(objective, SMALL, folder)
    if size.shards == 1 and not size.sources:
        return small
    large, recipe = assemble("bert", Size(size.files, size.shards), folder), recipe_of("bert", size)
    layout, sources = recipe.layout, tuple(source.name for source in recipe.sources)
    generation = small.names.generation
    assert generation
    return replace(
        small, plan=large.plan, corpus_bytes=large.corpus_bytes, sources=sources,
        routes=replace(large.routes, layout=layout, repeats=small.objective.repeats),
        commit=replace(small.commit, tasks=large.commit.tasks),
        names=replace(
            small.names, layout=layout, sources=sources,
            generation=replace(generation, layout=layout),
        ),
    )  # fmt: skip


def addition_to(job: Job) -> Job:
    """The same text added to a data set with many documents."""
    held = Held(locate("gs://corpus/out"), Plan("gs://corpus/held", 10**5, 10**5), True)
    return replace(job, held=held)


def translate_all(
    engines: Mapping[str, Translate], build: Build
) -> Iterator[beam_runner_api_pb2.Pipeline]:
    """Yield what each engine gets, which none of them would refuse, or fail on late."""
    pipeline = new_pipeline()
    build(pipeline)
    assert find_faults(describe_pipeline(pipeline)) == []
    for name in ENGINES:
        proto = engines[name](build)
        assert proto.ByteSize() < _REQUEST_BYTES < LARGEST_PIPELINE
        yield proto


# Other objectives than BERT's differ in the stages alone.
@pytest.mark.parametrize(
    ("objective", "size"),
    [
        *(("bert", size) for size in SIZES),
        ("gpt_stream", "small"),
        ("gpt_stream", "full"),
        ("t5", "full"),
    ],
)
def test_a_build_of_any_size_is_translated(
    objective: str, size: str, engines: Mapping[str, Translate], folder: Path
) -> None:
    job = job_of(objective, SIZES[size], folder)
    for proto in translate_all(engines, partial(build_dataset, job=job)):
        names = [transform.unique_name for transform in proto.components.transforms.values()]
        # Stages that exist only where there are very many files.
        is_large = SIZES[size].shards > 1
        for stage in ("RemoveFiles", "JoinRejects", "MergeSegments"):
            assert any(stage in name for name in names) == is_large, stage


@pytest.fixture(params=["small", "full"])
def size(request: pytest.FixtureRequest) -> Size:
    return SIZES[request.param]


def test_text_that_is_added_is_translated(
    size: Size, engines: Mapping[str, Translate], folder: Path
) -> None:
    job = addition_to(job_of("bert", size, folder))
    for proto in translate_all(engines, partial(build_dataset, job=job)):
        names = [transform.unique_name for transform in proto.components.transforms.values()]
        assert any("FindKnown" in name for name in names)


def test_the_measuring_of_a_corpus_is_translated(
    size: Size, engines: Mapping[str, Translate], folder: Path
) -> None:
    job = job_of("bert", size, folder)
    build = partial(measure_job, job=job, tokenizer=bert_tokenizer(), sample_tokens=10**6)
    assert len([*translate_all(engines, build)]) == len(ENGINES)


def test_the_counting_of_words_is_translated(
    size: Size, engines: Mapping[str, Translate], tmp_path: Path
) -> None:
    documents, options = DocumentOptions(input_format="text"), WordPieceOptions()
    corpus = SampledCorpus(list_files(size.files), documents, SampleOptions())
    job = plan_counting(corpus, options, LocalEngine(RunOptions()), Workplace(str(tmp_path)))
    build = partial(count_corpus, job=job, path="gs://corpus/words.json")
    assert len([*translate_all(engines, build)]) == len(ENGINES)


def test_the_check_of_a_data_set_is_translated(
    size: Size, engines: Mapping[str, Translate]
) -> None:
    checking = Checking(locate(BUCKET), "0" * 64, 3 * size.shards, frozenset())
    build = partial(check_files, checking=checking, path="gs://corpus/checked.json")
    assert len([*translate_all(engines, build)]) == len(ENGINES)


def edit_of(shards: int) -> tuple[Edited, EditPlan]:
    """A data set that is changed, with files that need not exist."""
    files = [tuple(f"{kind}-{number:05d}" for kind in "abc") for number in range(shards)]
    listed = WrittenFile(0, 0, "gs://corpus/removed.parquet", 0, 0, 1, "0" * 64)
    tokenizer = "gs://corpus/tokenizer.json"
    plan = EditPlan(small_manifest(), files, tokenizer, "drop", "they are old", listed)
    manifest, documents = (StoredFile(f"{BUCKET}/{name}", "0" * 64) for name in ("m", "d"))
    return Edited(locate("gs://corpus/out"), manifest, shards, documents), plan


def test_the_editing_of_a_data_set_is_translated(
    size: Size, engines: Mapping[str, Translate], tmp_path: Path
) -> None:
    """For `drop`."""
    edited, plan = edit_of(size.shards)
    decision = plan.decide(Workplace(str(tmp_path), BUCKET), is_awaited=True)
    for proto in translate_all(engines, partial(add_stages, edited=edited, decision=decision)):
        names = [transform.unique_name for transform in proto.components.transforms.values()]
        assert any("RemoveFiles" in name for name in names) == (size.shards > 1)

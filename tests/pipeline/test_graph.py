"""The graph as a runner gets it: what travels, how it is encoded, and what each stage carries."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from apache_beam import coders
from apache_beam.internal import pickler
from apache_beam.portability import common_urns, python_urns
from apache_beam.portability.api import beam_runner_api_pb2
from apache_beam.runners.pipeline_context import PipelineContext

from corpusmill.corpus.document_options import DocumentOptions
from corpusmill.corpus.filters.functions import FilterOptions
from corpusmill.formats.output_options import OutputOptions
from corpusmill.location import locate
from corpusmill.objectives.bert import BertOptions
from corpusmill.tokenization.tokenizer_file import TokenizerFile
from pipeline.assembly import assemble_job
from pipeline.graph import build_dataset
from pipeline.job_options import CorpusOptions, RunOptions
from pipeline.recipe.inputs import list_inputs
from pipeline.recipe.recipe import Recipe
from pipeline.runners.beam_pipelines import new_pipeline
from pipeline.runners.local.engine import LocalEngine
from tests.tools.proto_checks import describe_pipeline, find_faults
from transforms.corpus.known_texts import Held
from transforms.corpus.plan import write_plan
from transforms.recovery import Workplace


@pytest.fixture(
    scope="module",
    params=["all documents", "without duplicates", "without near ones", "without known ones"],
)
def proto(
    request: pytest.FixtureRequest, sample: Path, tokenizer: TokenizerFile,
    tmp_path_factory: pytest.TempPathFactory,
) -> beam_runner_api_pb2.Pipeline:  # fmt: skip
    folder = str(tmp_path_factory.mktemp("graph"))
    dataset = CorpusOptions(input=(str(sample),), tokenizer="t", validation_share=0.1)
    similarity = 0.8 if request.param == "without near ones" else None
    filters = FilterOptions(
        drop_duplicates=request.param == "without duplicates", drop_near_duplicates=similarity
    )
    recipe = Recipe(
        dataset, BertOptions(), tokenizer, DocumentOptions(input_format="text"), OutputOptions(),
        list_inputs(dataset.input, folder), filters,
    )  # fmt: skip
    job = assemble_job(recipe, LocalEngine(RunOptions()), Workplace(folder))
    if request.param == "without known ones":
        held = write_plan(f"{folder}/held", [[("documents",)]])
        job = replace(job, held=Held(locate(folder), held, are_refused=True))
    pipeline = new_pipeline()
    build_dataset(pipeline, job)
    return describe_pipeline(pipeline)


def test_no_engine_would_refuse_it(proto: beam_runner_api_pb2.Pipeline) -> None:
    """References and counts travel as rows and plain values, and no stage has state."""
    assert find_faults(proto) == []


def pardos(
    proto: beam_runner_api_pb2.Pipeline,
) -> Iterator[tuple[str, beam_runner_api_pb2.ParDoPayload]]:
    for transform in proto.components.transforms.values():
        if transform.spec.urn == common_urns.primitives.PAR_DO.urn:
            payload = beam_runner_api_pb2.ParDoPayload.FromString(transform.spec.payload)
            yield transform.unique_name, payload


def test_stages_carry_options_and_no_data_nor_code(proto: beam_runner_api_pb2.Pipeline) -> None:
    stages = {
        name: payload.do_fn.payload
        for name, payload in pardos(proto)
        if payload.do_fn.urn == python_urns.PICKLED_DOFN_INFO
    }
    assert stages
    assert {name: len(stage) for name, stage in stages.items() if len(stage) > 6000} == {}
    # What stands in a module is named; `test_workers_code` unpickles it where nothing else is.
    modules = {type(pickler.loads(stage)[0]).__module__ for stage in stages.values()}
    assert {module.partition(".")[0] for module in modules} <= {"transforms", "apache_beam"}


def test_the_pool_reaches_the_builders_as_one_path(proto: beam_runner_api_pb2.Pipeline) -> None:
    [(_, build)] = [(name, payload) for name, payload in pardos(proto) if "ShardDoFn" in name]
    assert len(build.side_inputs) == 1
    context = PipelineContext(proto.components)
    [pool] = [
        context.coders.get_by_id(collection.coder_id)
        for collection in proto.components.pcollections.values()
        if "PoolDoFn" in collection.unique_name and ".None" in collection.unique_name
    ]
    assert isinstance(pool, coders.StrUtf8Coder)

"""What a pipeline's proto says of its collections."""

from collections.abc import Iterator

from apache_beam import coders
from apache_beam.portability.api import beam_runner_api_pb2
from apache_beam.runners.pipeline_context import PipelineContext

PLAIN_CODERS = {
    coders.RowCoder, coders.VarIntCoder, coders.StrUtf8Coder, coders.BytesCoder,
    coders.TupleCoder, coders.IterableCoder,
}  # fmt: skip


def list_coders(coder: coders.Coder) -> Iterator[coders.Coder]:
    """Yield a coder and all coders that it is made of."""
    yield coder
    for component in coder._get_component_coders():
        yield from list_coders(component)


def list_collections(proto: beam_runner_api_pb2.Pipeline) -> Iterator[tuple[str, coders.Coder]]:
    """Yield the name and the coder of each collection outside of Beam's own Reshuffle."""
    context = PipelineContext(proto.components)
    for collection in proto.components.pcollections.values():
        name = collection.unique_name
        if "Reshuffle" not in name and "SpreadTasks" not in name:
            yield name, context.coders.get_by_id(collection.coder_id)

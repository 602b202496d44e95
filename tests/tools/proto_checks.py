"""Checks of a pipeline's proto for what is not safe on an engine elsewhere.

Such an engine notices these faults after minutes, or never: it pickles elements that have no coder,
groups by keys whose bytes differ from worker to worker, or refuses a request that is too long. The
checks leave out the inside of Beam's own transforms. What they find depends on the stages of a job,
and on no corpus, so that every stage is checked here and no job that is run.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import apache_beam as beam
from apache_beam import coders
from apache_beam.portability import common_urns, python_urns
from apache_beam.portability.api import beam_runner_api_pb2
from apache_beam.runners.pipeline_context import PipelineContext
from apache_beam.transforms.environments import EmbeddedPythonEnvironment

# The options of a stage take 500 to 5,000 bytes, and more only where each of some thousand sources
# has a name, or each of 99,999 shards a place in the order of the corpus. What grows with the input
# does not belong there.
LARGEST_PAYLOAD = 2**20

# The service refuses requests above 10 MB, and the pipeline is most of a request.
LARGEST_PIPELINE = 8 * 10**6

# The place of a fault of all of a pipeline.
WHOLE = "the pipeline"

_PICKLED = (
    coders.PickleCoder,
    coders.FastPrimitivesCoder,
    coders.DillCoder,
    coders.CloudpickleCoder,
)
# Composites, such as ours, of which Beam knows only the parts; its own composites have names.
_PLAIN = {"", python_urns.GENERIC_COMPOSITE_TRANSFORM}
_GROUPS = {common_urns.primitives.GROUP_BY_KEY.urn, common_urns.composites.COMBINE_PER_KEY.urn}


@dataclass(frozen=True)
class ProtoFault:
    """Something that should not be in a pipeline.

    Attributes:
        place: the name of the transform or collection.
        what: what is wrong with it.
    """

    place: str
    what: str


def describe_pipeline(pipeline: beam.Pipeline) -> beam_runner_api_pb2.Pipeline:
    """Return the proto of a pipeline, as far as it is the same for all engines."""
    # The environment does not matter here; the runner's own would stage files.
    return pipeline.to_runner_api(default_environment=EmbeddedPythonEnvironment.default())


def find_faults(proto: beam_runner_api_pb2.Pipeline) -> list[ProtoFault]:
    """Find everything that is wrong with a pipeline.

    Args:
        proto: what `Pipeline.to_runner_api` returns, or an engine's own translation of it.
    """
    return list(_Checks(proto).find())


class _Checks:
    def __init__(self, proto: beam_runner_api_pb2.Pipeline) -> None:
        self._proto = proto
        self._transforms = proto.components.transforms
        self._collections = proto.components.pcollections
        self._coders = PipelineContext(proto.components).coders
        theirs = set(self._inside_beam(proto.root_transform_ids, inside=False))
        self._ours = [part for name, part in self._transforms.items() if name not in theirs]

    def find(self) -> Iterator[ProtoFault]:
        yield from self._check_size()
        yield from self._check_collections()
        for transform in self._ours:
            name, urn = transform.unique_name, transform.spec.urn
            if urn in _GROUPS:
                yield from self._check_key(transform)
            if urn == common_urns.primitives.PAR_DO.urn:
                payload = beam_runner_api_pb2.ParDoPayload.FromString(transform.spec.payload)
                yield from self._check_do_fn(name, payload)
                yield from self._check_side_inputs(transform, payload)

    def _inside_beam(self, names: list[str], inside: bool) -> Iterator[str]:
        """List the transforms inside of Beam's own composites."""
        for name in names:
            transform = self._transforms[name]
            if inside:
                yield name
            is_beams = bool(transform.subtransforms) and transform.spec.urn not in _PLAIN
            yield from self._inside_beam(transform.subtransforms, inside or is_beams)

    def _check_size(self) -> Iterator[ProtoFault]:
        if (size := self._proto.ByteSize()) > LARGEST_PIPELINE:
            what = f"it has {size:,} bytes, more than {LARGEST_PIPELINE:,}"
            yield ProtoFault(WHOLE, what)

    def _check_collections(self) -> Iterator[ProtoFault]:
        # Each only once, in the order of the transforms.
        for name in dict.fromkeys(name for part in self._ours for name in part.outputs.values()):
            collection = self._collections[name]
            if collection.is_bounded == beam_runner_api_pb2.IsBounded.UNBOUNDED:
                yield ProtoFault(collection.unique_name, "the collection is unbounded")
            coder = self._coders.get_by_id(collection.coder_id)
            if any(isinstance(leaf, _PICKLED) for leaf in _leaves(coder)):
                yield ProtoFault(collection.unique_name, "its elements are pickled")

    def _check_key(self, transform: beam_runner_api_pb2.PTransform) -> Iterator[ProtoFault]:
        [name] = transform.inputs.values()
        coder = self._coders.get_by_id(self._collections[name].coder_id)
        if not coder.is_kv_coder():
            yield ProtoFault(transform.unique_name, "its elements have no key")
        elif not coder.key_coder().is_deterministic():
            yield ProtoFault(
                transform.unique_name, "equal keys may have different bytes on different workers"
            )

    def _check_do_fn(
        self, name: str, payload: beam_runner_api_pb2.ParDoPayload
    ) -> Iterator[ProtoFault]:
        if payload.state_specs or payload.timer_family_specs:
            yield ProtoFault(name, "the DoFn keeps state")
        if payload.restriction_coder_id:
            yield ProtoFault(name, "the DoFn splits its elements")
        is_pickled = payload.do_fn.urn == python_urns.PICKLED_DOFN_INFO
        size = len(payload.do_fn.payload)
        if is_pickled and size > LARGEST_PAYLOAD:
            what = f"the DoFn has {size:,} bytes, more than {LARGEST_PAYLOAD:,}"
            yield ProtoFault(name, what)

    def _check_side_inputs(
        self, transform: beam_runner_api_pb2.PTransform, payload: beam_runner_api_pb2.ParDoPayload
    ) -> Iterator[ProtoFault]:
        """Check side inputs: only a stage that runs once may read more than paths."""
        if not payload.side_inputs or self._runs_once(transform, payload):
            return
        for tag in payload.side_inputs:
            collection = self._collections[transform.inputs[tag]]
            leaves = _leaves(self._coders.get_by_id(collection.coder_id))
            if not all(isinstance(leaf, coders.StrUtf8Coder) for leaf in leaves):
                what = f"every worker reads side input {tag}, which holds more than paths"
                yield ProtoFault(transform.unique_name, what)

    def _runs_once(
        self, transform: beam_runner_api_pb2.PTransform, payload: beam_runner_api_pb2.ParDoPayload
    ) -> bool:
        main = {name for tag, name in transform.inputs.items() if tag not in payload.side_inputs}
        impulses = {
            name
            for part in self._transforms.values()
            if part.spec.urn == common_urns.primitives.IMPULSE.urn
            for name in part.outputs.values()
        }
        return main <= impulses


def _leaves(coder: coders.Coder) -> Iterator[coders.Coder]:
    """List the elementary coders that a coder is made of."""
    components = coder._get_component_coders()
    if not components:
        yield coder
    for component in components:
        yield from _leaves(component)

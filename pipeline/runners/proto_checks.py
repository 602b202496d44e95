"""What a pipeline must not hold when it is given to an engine elsewhere: looked up in its proto.

Such an engine finds these things late, after minutes, or never: it pickles elements that have no
coder, groups by keys whose bytes differ from worker to worker, or refuses a request that is too
long. Looking takes milliseconds. What lies inside Beam's own transforms is Beam's.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from apache_beam import coders
from apache_beam.portability import common_urns, python_urns
from apache_beam.portability.api import beam_runner_api_pb2
from apache_beam.runners.pipeline_context import PipelineContext

# Options of all stages take 500 to 5,000 bytes. What grows with the input does not belong there.
LARGEST_PAYLOAD = 16 * 2**10

# The service refuses requests above 10 MB, of which the pipeline is the most.
LARGEST_PIPELINE = 8 * 10**6

_PICKLED = (
    coders.PickleCoder,
    coders.FastPrimitivesCoder,
    coders.DillCoder,
    coders.CloudpickleCoder,
)
# Composites of which Beam knows no more than their parts, as ours are; its own have names.
_PLAIN = {"", python_urns.GENERIC_COMPOSITE_TRANSFORM}
_GROUPS = {
    common_urns.primitives.GROUP_BY_KEY.urn,
    common_urns.composites.COMBINE_PER_KEY.urn,
}


@dataclass(frozen=True)
class ProtoFault:
    """Something that should not be in a pipeline.

    Attributes:
        place: name of the transform or collection.
        what: what is wrong there.
    """

    place: str
    what: str


def find_faults(
    proto: beam_runner_api_pb2.Pipeline, largest_payload: int = LARGEST_PAYLOAD
) -> list[ProtoFault]:
    """All that is wrong with a pipeline; nothing where all is well.

    Args:
        proto: as `Pipeline.to_runner_api` gives it, or an engine's own translation of it.
        largest_payload: bytes that a DoFn may take, pickled.
    """
    return list(_Checks(proto, largest_payload).find())


class _Checks:
    def __init__(self, proto: beam_runner_api_pb2.Pipeline, largest_payload: int) -> None:
        self._proto, self._largest_payload = proto, largest_payload
        self._transforms = proto.components.transforms
        self._collections = proto.components.pcollections
        self._coders = PipelineContext(proto.components).coders
        theirs = set(self._inside_beam(proto.root_transform_ids, inside=False))
        self._ours = {name: of for name, of in self._transforms.items() if name not in theirs}

    def find(self) -> Iterator[ProtoFault]:
        yield from self._check_size()
        yield from self._check_collections()
        for transform in self._ours.values():
            name, urn = transform.unique_name, transform.spec.urn
            if urn in _GROUPS:
                yield from self._check_key(transform)
            if urn == common_urns.primitives.PAR_DO.urn:
                payload = beam_runner_api_pb2.ParDoPayload.FromString(transform.spec.payload)
                yield from self._check_do_fn(name, payload)
                yield from self._check_side_inputs(transform, payload)

    def _inside_beam(self, names: list[str], inside: bool) -> Iterator[str]:
        """Transforms that one of Beam's own composites is made of."""
        for name in names:
            transform = self._transforms[name]
            if inside:
                yield name
            is_beams = bool(transform.subtransforms) and transform.spec.urn not in _PLAIN
            yield from self._inside_beam(transform.subtransforms, inside or is_beams)

    def _check_size(self) -> Iterator[ProtoFault]:
        if (size := self._proto.ByteSize()) > LARGEST_PIPELINE:
            yield ProtoFault("the pipeline", f"it has {size:,} bytes, above {LARGEST_PIPELINE:,}")

    def _check_collections(self) -> Iterator[ProtoFault]:
        for name in self._given():
            collection = self._collections[name]
            if collection.is_bounded == beam_runner_api_pb2.IsBounded.UNBOUNDED:
                yield ProtoFault(collection.unique_name, "the collection has no end")
            if any(isinstance(leaf, _PICKLED) for leaf in self._leaves(name)):
                yield ProtoFault(collection.unique_name, "its elements are pickled")

    def _given(self) -> list[str]:
        """The collections that our transforms give."""
        names = (name for of in self._ours.values() for name in of.outputs.values())
        return list(dict.fromkeys(names))

    def _check_key(self, transform: beam_runner_api_pb2.PTransform) -> Iterator[ProtoFault]:
        [name] = transform.inputs.values()
        coder = self._coders.get_by_id(self._collections[name].coder_id)
        if not coder.is_kv_coder():
            yield ProtoFault(transform.unique_name, "what is grouped has no key")
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
        if is_pickled and size > self._largest_payload:
            what = f"the DoFn has {size:,} bytes, above {self._largest_payload:,}"
            yield ProtoFault(name, what)

    def _check_side_inputs(
        self,
        transform: beam_runner_api_pb2.PTransform,
        payload: beam_runner_api_pb2.ParDoPayload,
    ) -> Iterator[ProtoFault]:
        """A stage that runs once may read collections; one that every worker runs, only paths."""
        if not payload.side_inputs or self._runs_once(transform, payload):
            return
        for tag in payload.side_inputs:
            leaves = [*self._leaves(transform.inputs[tag])]
            if not all(isinstance(leaf, coders.StrUtf8Coder) for leaf in leaves):
                yield ProtoFault(
                    transform.unique_name,
                    f"side input {tag} holds more than paths, for each worker",
                )

    def _runs_once(
        self,
        transform: beam_runner_api_pb2.PTransform,
        payload: beam_runner_api_pb2.ParDoPayload,
    ) -> bool:
        main = {name for tag, name in transform.inputs.items() if tag not in payload.side_inputs}
        impulses = {
            name
            for of in self._transforms.values()
            if of.spec.urn == common_urns.primitives.IMPULSE.urn
            for name in of.outputs.values()
        }
        return main <= impulses

    def _leaves(self, collection: str) -> Iterator[coders.Coder]:
        """The coders that the coder of a collection is made of, those without components."""
        coder_id = self._collections[collection].coder_id
        yield from _leaves_of(self._coders.get_by_id(coder_id))


def _leaves_of(coder: coders.Coder) -> Iterator[coders.Coder]:
    components = coder._get_component_coders()
    if not components:
        yield coder
    for component in components:
        yield from _leaves_of(component)

"""Unpickle all that pipelines carry, where only what workers get is to be found.

    python -I -S look_inside.py PIPELINES FOLDER...

Prints as JSON where the code came from and what was found. It runs without the checkout, and so
imports nothing of the tests.
"""

import json
import sys
from pathlib import Path

sys.path[:0] = sys.argv[2:]

from apache_beam.internal import pickler  # noqa: E402
from apache_beam.portability import python_urns  # noqa: E402
from apache_beam.portability.api import beam_runner_api_pb2  # noqa: E402
from apache_beam.runners.pipeline_context import PipelineContext  # noqa: E402


def look(content: bytes) -> dict[str, dict[str, str]]:
    """Unpickle the DoFns, coders and windows of one pipeline."""
    proto = beam_runner_api_pb2.Pipeline.FromString(content)
    do_fns = {}
    for transform in proto.components.transforms.values():
        if transform.spec.urn == "beam:transform:pardo:v1":
            payload = beam_runner_api_pb2.ParDoPayload.FromString(transform.spec.payload)
            if payload.do_fn.urn == python_urns.PICKLED_DOFN_INFO:
                do_fn = pickler.loads(payload.do_fn.payload)[0]
                do_fns[transform.unique_name] = f"{type(do_fn).__module__}.{type(do_fn).__name__}"
        elif transform.spec.urn.startswith("beam:transform:combine"):
            payload = beam_runner_api_pb2.CombinePayload.FromString(transform.spec.payload)
            pickler.loads(payload.combine_fn.payload)
    context = PipelineContext(proto.components)
    for name in proto.components.windowing_strategies:
        context.windowing_strategies.get_by_id(name)
    coders = {name: str(context.coders.get_by_id(name)) for name in proto.components.coders}
    return {"do_fns": do_fns, "coders": coders}


def main() -> None:
    """Look into all of them, and say where the code came from."""
    results = {path.stem: look(path.read_bytes()) for path in Path(sys.argv[1]).glob("*.pb")}
    ours = ("corpusmill", "transforms", "pipeline", "tests")
    places = {
        name: str(module.__file__)
        for name, module in sys.modules.items()
        if name.partition(".")[0] in ours and getattr(module, "__file__", None)
    }
    json.dump({"jobs": results, "places": places}, sys.stdout)


main()

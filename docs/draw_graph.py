"""The picture of the job's graph, drawn from the pipeline that Beam gets.

`python docs/draw_graph.py` writes docs/explanation/graph.svg; a test compares the file with the
graph.
"""

import tempfile
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from pathlib import Path

from apache_beam.portability import common_urns
from apache_beam.portability.api import beam_runner_api_pb2

from corpusmill.corpus.document_options import DocumentOptions
from corpusmill.corpus.filters.functions import FilterOptions
from corpusmill.formats.output_options import OutputOptions
from corpusmill.objectives.bert import BertOptions
from corpusmill.testing import small_tokenizer
from pipeline.assembly import assemble_job
from pipeline.graph import build_dataset
from pipeline.job_options import CorpusOptions, RunOptions
from pipeline.recipe.inputs import list_inputs
from pipeline.recipe.recipe import Recipe
from pipeline.runners.beam_pipelines import new_pipeline
from pipeline.runners.local.engine import LocalEngine
from transforms.recovery import Workplace

PICTURE = Path(__file__).parent / "explanation" / "graph.svg"

_WIDTH, _HEIGHT = 168, 44
_COLUMN, _ROW = 276, 84
_STYLE = (
    "text { font: 14px sans-serif; text-anchor: middle; fill: #222 } "
    ".name { font-weight: bold } .label { font-size: 12px; fill: #555 } "
    "rect { fill: #e0f2f1; stroke: #00796b } path { fill: none; stroke: #555 } "
    ".side { stroke-dasharray: 5 4 }"
)
_ARROWHEAD = (
    '<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" '
    'markerHeight="8" orient="auto"><path d="M0 0 8 4 0 8"/></marker></defs>'
)


@dataclass(frozen=True)
class Edge:
    """What passes from one stage to another.

    Attributes:
        source: name of the stage that makes it.
        target: name of the stage that takes it.
        label: names of the outputs; empty for the main one.
        is_side: whether it is a side input.
    """

    source: str
    target: str
    label: str
    is_side: bool


def translate_graph() -> beam_runner_api_pb2.Pipeline:
    """Return the pipeline of a small BERT job."""
    with tempfile.TemporaryDirectory() as folder:
        text = Path(folder, "text.txt")
        text.write_text("A line .\n", encoding="utf-8")
        corpus = CorpusOptions(input=(str(text),), tokenizer="none")
        documents = DocumentOptions(input_format="text")
        files = list_inputs(corpus.input, folder)
        recipe = Recipe(
            corpus, BertOptions(), small_tokenizer(), documents, OutputOptions(), files,
            FilterOptions(),
        )  # fmt: skip
        pipeline = new_pipeline()
        build_dataset(pipeline, assemble_job(recipe, LocalEngine(RunOptions()), Workplace(folder)))
        return pipeline.to_runner_api()


def list_edges(proto: beam_runner_api_pb2.Pipeline) -> list[Edge]:
    """Return what passes between the stages, in their order."""
    transforms = proto.components.transforms
    [root] = (transforms[name] for name in proto.root_transform_ids)
    stages = [transforms[name] for name in root.subtransforms]
    made = {
        collection: (stage.unique_name, "" if tag == "None" else tag)
        for stage in stages
        for tag, collection in stage.outputs.items()
    }
    labels: dict[tuple[str, str, bool], set[str]] = defaultdict(set)
    for stage in stages:
        for collection, is_side in _list_inputs(proto, stage):
            source, label = made.get(collection, (stage.unique_name, ""))
            if source != stage.unique_name:
                labels[source, stage.unique_name, is_side].add(label)
    return [
        Edge(source, target, ", ".join(sorted(names - {""})), is_side)
        for (source, target, is_side), names in sorted(labels.items())
    ]


def _list_inputs(
    proto: beam_runner_api_pb2.Pipeline, transform: beam_runner_api_pb2.PTransform
) -> Iterator[tuple[str, bool]]:
    """Yield the collections that a stage and its parts take, and whether as side inputs."""
    side = set()
    if transform.spec.urn == common_urns.primitives.PAR_DO.urn:
        payload = beam_runner_api_pb2.ParDoPayload.FromString(transform.spec.payload)
        side = set(payload.side_inputs)
    if not transform.subtransforms:
        yield from ((name, tag in side) for tag, name in transform.inputs.items())
    for name in transform.subtransforms:
        yield from _list_inputs(proto, proto.components.transforms[name])


def place_stages(edges: list[Edge]) -> dict[str, tuple[int, int]]:
    """Return column and row of each stage: stages stand to the right of those they depend on."""
    names = dict.fromkeys(name for edge in edges for name in (edge.source, edge.target))
    columns = dict.fromkeys(names, 0)
    for _ in names:
        for edge in edges:
            columns[edge.target] = max(columns[edge.target], columns[edge.source] + 1)
    rows: dict[int, int] = defaultdict(int)
    places = {}
    for name in sorted(names, key=lambda name: any(e.is_side for e in edges if e.source == name)):
        places[name] = (columns[name], rows[columns[name]])
        rows[columns[name]] += 1
    return places


def draw(edges: list[Edge]) -> str:
    """Return the picture as SVG."""
    places = place_stages(edges)
    width = 48 + _WIDTH + max(column for column, _ in places.values()) * _COLUMN
    height = (3 + max(row for _, row in places.values())) * _ROW
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">',
        f"<style>{_STYLE}</style>",
        _ARROWHEAD,
        f'<rect width="{width}" height="{height}" style="fill: #fff; stroke: none"/>',
    ]
    lane = 0
    for edge in edges:
        is_far = places[edge.target][0] - places[edge.source][0] > 1
        lines += _draw_edge(edge, places, height - 100 + 24 * lane if is_far else None)
        lane += is_far
    for name, (column, row) in places.items():
        x, y = _corner(column, row)
        lines.append(f'<rect x="{x}" y="{y}" width="{_WIDTH}" height="{_HEIGHT}" rx="6"/>')
        middle = f'x="{x + _WIDTH // 2}" y="{y + _HEIGHT // 2 + 5}"'
        lines.append(f'<text class="name" {middle}>{escape(name)}</text>')
    return "\n".join([*lines, "</svg>", ""])


def _corner(column: int, row: int) -> tuple[int, int]:
    return 24 + column * _COLUMN, 20 + row * _ROW


def _draw_edge(edge: Edge, places: dict[str, tuple[int, int]], lane: float | None) -> Iterator[str]:
    """Yield an arrow and its label; a far one runs in a lane below all stages."""
    x, y = _corner(*places[edge.source])
    to_x, to_y = _corner(*places[edge.target])
    kind = ' class="side"' if edge.is_side else ""
    if lane is None:
        x, y, to_y = x + _WIDTH, y + _HEIGHT // 2, to_y + _HEIGHT // 2
        bend = f"M{x} {y} C{x + 24} {y} {to_x - 24} {to_y} {to_x} {to_y}"
        label_x, label_y = (x + to_x) / 2, (y + to_y) / 2 - 8
    else:
        x, y, to_x, to_y = x + _WIDTH // 2, y + _HEIGHT, to_x + _WIDTH // 2, to_y + _HEIGHT
        bend = f"M{x} {y} V{lane} H{to_x} V{to_y}"
        label_x, label_y = (x + to_x) / 2, lane - 5
    yield f'<path{kind} d="{bend}" marker-end="url(#tip)"/>'
    if edge.label:
        yield f'<text class="label" x="{label_x}" y="{label_y}">{escape(edge.label)}</text>'


if __name__ == "__main__":
    PICTURE.write_text(draw(list_edges(translate_graph())), encoding="utf-8")

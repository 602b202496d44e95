"""Reports of small data sets, whose names would be markup if they were not escaped."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from corpusmill.dataset.manifest import Manifest
from corpusmill.dataset.manifest_entries import SourceFile
from corpusmill.inspection.decoded_examples import DrawnExample, draw_examples
from corpusmill.inspection.figures import Report, summarize
from corpusmill.location import locate

HOSTILE_NAME = "[bold]<script>alert(1)</script>.txt"

Render = Callable[[Manifest, Sequence[DrawnExample], Report], str]


def hostile_manifest(manifest: Manifest) -> Manifest:
    """Return the manifest with a file whose name would be markup, for rich and for a browser."""
    file = SourceFile(HOSTILE_NAME, manifest.corpus.bytes)
    return replace(manifest, corpus=replace(manifest.corpus, files=(file,)))


def draw_all(folder: Path, manifest: Manifest, number: int) -> list[DrawnExample]:
    """Draw examples of each split."""
    tokenizer_json = (folder / "tokenizer.json").read_text()
    return [
        example
        for split in manifest.splits
        for example in draw_examples(locate(str(folder)), manifest, tokenizer_json, split, number)
    ]


def draw_from(folder: Path, manifest: Manifest, render: Render, number: int = 200) -> str:
    """Return the page of a data set with drawn examples."""
    return render(manifest, draw_all(folder, manifest, number), summarize(manifest))

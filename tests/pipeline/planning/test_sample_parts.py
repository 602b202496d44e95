"""The parts of a corpus that are measured, and the tasks that are counted."""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from rich.console import Console

from corpusmill.corpus.document_options import DocumentOptions
from corpusmill.objectives.bert import BertOptions
from pipeline.assembly import cut_tasks
from pipeline.job_options import CorpusOptions
from pipeline.planning.planned_build import count_tasks, write_sample_text
from pipeline.planning.sample import choose_parts
from pipeline.recipe.build_options import BuildOptions
from pipeline.recipe.inputs import InputFile
from pipeline.recipe.recipe import Recipe, prepare

_TEXT = DocumentOptions(input_format="text")


@pytest.fixture(scope="module")
def recipe(sample: Path, tokenizer_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Recipe:
    dataset = CorpusOptions(input=(str(sample),), tokenizer=str(tokenizer_path))
    options = BuildOptions(dataset=dataset, objective=BertOptions())
    return prepare(options, str(tmp_path_factory.mktemp("recipe")), Console(quiet=True))


@settings(deadline=None)
@given(
    size=st.integers(1, 10**6),
    number=st.integers(1, 30),
    range_bytes=st.integers(10_000, 300_000),
    name=st.sampled_from(["part.txt", "part.txt.gz"]),
)
def test_tasks_of_equal_files_are_counted_as_if_all_were_cut(
    recipe: Recipe, size: int, number: int, range_bytes: int, name: str
) -> None:
    file = InputFile(name, size, name)
    corpus = replace(recipe, files=[file] * number)
    tasks = list(cut_tasks(corpus, range_bytes))
    counted = count_tasks(corpus, range_bytes)
    assert (counted.tasks, counted.ranges) == (len(tasks), sum(map(len, tasks)))


@settings(deadline=None)
@example(sizes=[2], num_bytes=1)
@given(
    sizes=st.lists(st.integers(0, 5000), min_size=1, max_size=20).filter(any),
    num_bytes=st.integers(1, 10_000),
)
def test_parts_are_spread_over_the_corpus(sizes: list[int], num_bytes: int) -> None:
    files = [InputFile(f"{number}.txt", size, "") for number, size in enumerate(sizes)]
    parts = [part.range for part in choose_parts(files, _TEXT, num_bytes, "")]
    chosen = {(part.file, place) for part in parts for place in range(part.start, part.end or 0)}
    total = sum(sizes)
    assert len(chosen) == sum((part.end or 0) - part.start for part in parts)
    assert all(place < sizes[int(file.split(".")[0])] for file, place in chosen)
    assert min(total, num_bytes) - 8 <= len(chosen) <= min(total, num_bytes + 8)


def test_text_without_an_input_is_the_same_each_time(tmp_path: Path) -> None:
    first, second = tmp_path / "a.txt", tmp_path / "b.txt"
    assert write_sample_text(first, 10**6) == write_sample_text(second, 10**6) >= 10**6
    text = first.read_text(encoding="utf-8")
    assert text == second.read_text(encoding="utf-8")
    assert len(text.split("\n\n")) > 50

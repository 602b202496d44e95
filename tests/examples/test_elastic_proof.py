"""The elastic proof in a small form, and that it notices what it is there to notice."""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from corpusmill.errors import UserError
from corpusmill.objectives.bert import BertOptions
from corpusmill.objectives.gpt import GptOptions
from corpusmill.objectives.objective_options import ObjectiveOptions
from corpusmill.reading.data_set import DataSet
from corpusmill.reading.load.batches import Batches
from corpusmill.reading.order.order import Order
from corpusmill.reading.order.schedule import Position
from corpusmill.reading.rows import Rows
from examples.elastic_proof import __main__ as program
from examples.elastic_proof.comparison import Counts, compare_rows, compare_steps, count_samples
from examples.elastic_proof.model import SmallModel
from examples.elastic_proof.ranks import Task
from examples.elastic_proof.reading import READERS, Division, NumberedRows, open_batches, split_rows
from examples.elastic_proof.training import Phase, Run, train
from tests.tools.small_datasets import SAMPLE, Recipe, write_dataset

_PACKED = GptOptions(mode="pack", max_seq_length=48)
_DYNAMIC = BertOptions(max_seq_length=48, duplicates=1, mask="dynamic")
_PACKED_DYNAMIC = BertOptions("packed", max_seq_length=48, duplicates=1, mask="dynamic")

_WHOLE = [Phase(Division(1, 0, 12))]
# Two, one and three ranks with twelve rows in a step together, and otherwise.
_SAME_STEPS = [Phase(Division(2, 1, 6), 5), Phase(Division(1, 2, 12), 2), Phase(Division(3, 0, 4))]
# No more than it takes to resume, of one rank that is killed.
_RESUMED = [Phase(Division(1, 0, 12), 5), Phase(Division(1, 0, 12))]
_OTHER_STEPS = [Phase(Division(2, 1, 4), 5), Phase(Division(1, 2, 7), 2), Phase(Division(3, 0, 5))]


@pytest.fixture(scope="module")
def data_sets(tmp_path_factory: pytest.TempPathFactory) -> Mapping[ObjectiveOptions, Path]:
    """Data sets of some dozen rows."""
    folder = tmp_path_factory.mktemp("elastic")
    folders: dict[ObjectiveOptions, Path] = {}
    for options in (_PACKED, _DYNAMIC, _PACKED_DYNAMIC):
        folders[options] = folder / str(len(folders))
        write_dataset(folders[options], Recipe(options, validation_share=0.0, text=SAMPLE[:9000]))
    return folders


def _train(
    data: Path, work: Path, phases: Sequence[Phase], reader: str = "loader", rate: float = 8.0
) -> Run:
    return train(Task(data, work, reader, rate), phases, 2 * len(DataSet(data)))


@pytest.fixture(scope="module")
def references(
    data_sets: Mapping[ObjectiveOptions, Path], tmp_path_factory: pytest.TempPathFactory
) -> Callable[..., Run]:
    """Train on a data set without interruption, once for each rate of learning."""

    @cache
    def train_whole(options: ObjectiveOptions, rate: float = 8.0) -> Run:
        return _train(data_sets[options], tmp_path_factory.mktemp("whole"), _WHOLE, rate=rate)

    return train_whole


def _count(run: Run, data: Path) -> Counts:
    return count_samples(run.rows, len(DataSet(data)), 2)


@pytest.mark.parametrize(
    ("options", "reader"),
    [(_PACKED_DYNAMIC, "loader"), (_PACKED, "map"), (_DYNAMIC, "streaming")],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_a_run_that_is_killed_has_the_curve_of_one_that_is_not(
    options: ObjectiveOptions,
    reader: str,
    data_sets: Mapping[ObjectiveOptions, Path],
    references: Callable[..., Run],
    tmp_path: Path,
) -> None:
    data = data_sets[options]
    assert len(DataSet(data)) % 12 not in (1, 2)  # a row for each of three ranks
    reference = references(options)
    run = _train(data, tmp_path, _SAME_STEPS, reader)
    assert list(compare_steps(run, reference)) == []
    assert _count(run, data) == Counts(0, 0)
    assert [(undone.begin, len(undone.steps)) for undone in run.undone] == [(3, 2), (3, 2)]
    losses = [float.fromhex(step.loss) for step in run.steps]
    assert np.mean(losses[-3:]) < np.mean(losses[:3])
    if options is not _PACKED:
        contents = {(row.epoch, row.sample): row.content for row in run.rows}
        assert any(contents[0, sample] != contents[1, sample] for _, sample in contents)


@pytest.mark.parametrize("reader", READERS)
def test_a_run_with_other_batches_reads_the_same_rows(
    reader: str, data_sets: Mapping[ObjectiveOptions, Path], references: Callable[..., Run],
    tmp_path: Path,
) -> None:  # fmt: skip
    data, reference = data_sets[_PACKED_DYNAMIC], references(_PACKED_DYNAMIC, 0.0)
    run = _train(data, tmp_path, _OTHER_STEPS, reader, rate=0.0)
    assert list(compare_rows(run, reference)) == []
    assert _count(run, data) == Counts(0, 0)
    assert len(run.undone) == 2


def test_masks_of_another_epoch_are_noticed(
    data_sets: Mapping[ObjectiveOptions, Path], references: Callable[..., Run],
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    data, reference = data_sets[_DYNAMIC], references(_DYNAMIC)
    with monkeypatch.context() as broken:
        broken.setattr(Order, "epochs", lambda _self, numbers: np.zeros_like(numbers))
        run = _train(data, tmp_path, _WHOLE)
    assert "is read in another epoch" in next(compare_steps(run, reference))

    def prepare(self: NumberedRows, rows: Rows) -> Rows:
        first_epoch = Rows(rows.columns, rows.samples, np.zeros_like(rows.epochs))
        return Rows(self.collator.prepare(first_epoch).columns, rows.samples, rows.epochs)

    with monkeypatch.context() as broken:
        broken.setattr(NumberedRows, "prepare", prepare)
        run = _train(data, tmp_path, _WHOLE)
    assert "has other masked ids" in next(compare_steps(run, reference))


def test_a_wrong_position_is_noticed(
    data_sets: Mapping[ObjectiveOptions, Path], references: Callable[..., Run],
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    data, reference = data_sets[_PACKED], references(_PACKED)
    load = Batches.load_state_dict
    for shift, counts in ((1, Counts(1, 0)), (-1, Counts(0, 1))):

        def load_wrongly(self: Batches, state: Any, shift: int = shift) -> Position:
            return Position(load(self, state).number + shift)

        with monkeypatch.context() as broken:
            broken.setattr(Batches, "load_state_dict", load_wrongly)
            run = _train(data, tmp_path, _RESUMED)
        assert "step 4, row 1 is another sample" in list(compare_steps(run, reference))
        assert any("positions" in problem for problem in run.problems)
        assert _count(run, data) == counts


def test_a_row_has_one_loss_whatever_stands_beside_it(
    data_sets: Mapping[ObjectiveOptions, Path], tmp_path: Path
) -> None:
    batches = open_batches(data_sets[_PACKED], tmp_path, 8)
    reader = READERS["loader"](batches, 0, Division(1, 0, 8))
    rows = [row for batch in reader.batches for row in split_rows(batch)]
    model = SmallModel(batches.samples.manifest.tokenizer.vocab_size, 48, is_causal=True)
    results = [model.measure_row(row) for row in rows]
    alone = model.measure_row({name: values.clone() for name, values in rows[3].items()})
    assert alone[:2] == results[3][:2]
    assert np.array_equal(alone.gradient, results[3].gradient)
    # Where tokens see those of other documents, losses are others.
    merged = [model.measure_row(row | {"pieces": torch.ones(48)}) for row in rows]
    assert [result.loss for result in merged] != [result.loss for result in results]


def test_steps_are_equal_for_all_numbers_of_ranks() -> None:
    assert program.choose_global_batch(288) == 48
    assert program.choose_global_batch(240 + 7) == 72
    assert program.choose_global_batch(289) == 120
    with pytest.raises(UserError, match=r"149 samples.*150 or more"):
        program.choose_global_batch(149)


def test_the_program_proves_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # Little more than the rows that it takes.
    options = GptOptions(mode="pack", max_seq_length=32)
    write_dataset(tmp_path / "out", Recipe(options, text=SAMPLE[:19_000]))
    arguments = [str(tmp_path / "out"), "--results", str(tmp_path), "--readers", "loader"]
    assert program.main(arguments) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == "all equal, bit by bit"
    [curve, rows] = [line.split() for line in lines if line.startswith("out  ")]
    assert curve[2:6] == ["curve", "8x6", "2x24", "6x8"]
    assert rows[2:6] == ["rows", "8x3", "2x17", "6x7"]
    assert curve[-3:] == rows[-3:] == ["0", "0", "yes"]


def test_the_program_fails_if_anything_differs(
    data_sets: Mapping[ObjectiveOptions, Path], tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    result = program.Result(("data", "map", "curve"), [], Run(), Counts(0, 0), ["one differs"])
    for wrong in (result, result._replace(differences=[], counts=Counts(1, 0))):
        monkeypatch.setattr(program, "prove", lambda *_, wrong=wrong: iter([wrong]))
        assert program.main([str(tmp_path)]) == 1
        assert "something differs" in capsys.readouterr().out
    monkeypatch.undo()
    small = str(data_sets[_PACKED])
    assert program.main([small, "--results", str(tmp_path)]) == 2
    assert "Give a data set of 150 or more" in capsys.readouterr().err
    write_dataset(tmp_path / "stream", Recipe(GptOptions()))
    assert program.main([str(tmp_path / "stream"), "--results", str(tmp_path)]) == 2
    assert "Give a data set of gpt --mode pack or of bert" in capsys.readouterr().err

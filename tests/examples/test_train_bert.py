"""The training demo: falling losses, their plot, and a resumed run."""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch

from corpusmill.objectives.bert import BertOptions
from corpusmill.reading.data_set import DataSet
from tests.examples.conftest import Builder
from tests.tools.lazily import LazyModule
from tests.tools.small_datasets import Recipe, write_dataset

if TYPE_CHECKING:
    from matplotlib import image

    from examples import loss_curves, train_bert
else:
    image, loss_curves, train_bert = map(
        LazyModule, ("matplotlib.image", "examples.loss_curves", "examples.train_bert")
    )

_OPTIONS = BertOptions(max_seq_length=64, duplicates=5, mask="dynamic")


def _run(data: Path, results: Path, steps: int, *flags: str) -> "train_bert.Training":
    small = ("--hidden-size", "32", "--batch-size", "32", "--validation-batches", "2")
    options = train_bert.parse_arguments(
        [str(data), "--results", str(results), "--steps", str(steps), *small, *flags]
    )
    return train_bert.train(options)


def test_losses_go_down_and_are_plotted(
    build: Builder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = train_bert.parse_arguments(
        [str(build(_OPTIONS) / "out"), "--results", str(tmp_path), "--steps", "40",
         "--save-every", "8", "--hidden-size", "64", "--learning-rate", "5e-3"]
    )  # fmt: skip
    training = train_bert.train(options)
    train_bert.conclude(options, training)

    mlm = [losses.mlm for losses in training.losses]
    assert len(mlm) == 40
    assert np.mean(mlm[-10:]) < np.mean(mlm[:5]) - 0.5
    assert [losses.step for losses in training.validation] == [8, 16, 24, 32, 40]
    assert training.validation[-1].mlm < training.validation[0].mlm - 0.2
    picture = image.imread(tmp_path / "losses.png")
    assert picture.shape[0] > 400
    assert picture.shape[1] > 1000
    assert picture.std() > 0.01
    output = capsys.readouterr().out.splitlines()
    assert output[-1] == f"40 steps; the losses are plotted in {tmp_path / 'losses.png'}"


def test_a_resumed_run_ends_like_one_that_never_stopped(
    build: Builder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = build(_OPTIONS) / "out"
    whole = _run(data, tmp_path, 30, "--save-every", "10")
    assert 20 < len(DataSet(data)) / 32 < 30  # the second epoch has begun

    def stop(training: "train_bert.Training", _seconds: float) -> None:
        if len(training.losses) == 20:
            raise KeyboardInterrupt

    monkeypatch.setattr("examples.train_bert.report", stop)
    with pytest.raises(KeyboardInterrupt, match=r"after step 20: step 20 is saved.*--resume"):
        _run(data, tmp_path, 30, "--save-every", "10")
    resumed = _run(data, tmp_path, 30, "--save-every", "10", "--resume")

    assert resumed.losses == whole.losses
    assert resumed.validation == whole.validation
    for name, tensor in whole.model.state_dict().items():
        assert torch.equal(tensor, resumed.model.state_dict()[name]), name


def _refuse(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> str:
    assert train_bert.main([str(argument) for argument in arguments]) == 2
    message = capsys.readouterr().err
    assert message.startswith("error: ")
    assert message.count("\n") == 1
    return message


def test_what_cannot_be_trained_is_refused(
    build: Builder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = build(_OPTIONS) / "out"
    assert "there is no such folder" in _refuse(capsys, tmp_path / "nowhere")
    without_pairs = build(BertOptions(max_seq_length=64, segments="full-sentences")) / "out"
    assert "no labels of the next sentence" in _refuse(capsys, without_pairs)
    whole = tmp_path / "whole"
    write_dataset(whole, Recipe(_OPTIONS, validation_share=0.0))
    assert "Build it with --validation-share 0.1" in _refuse(capsys, whole)
    assert "--steps 0" in _refuse(capsys, data, "--steps", "0")
    results = ("--results", tmp_path / "results")
    assert "there is no checkpoint" in _refuse(capsys, data, *results, "--resume")
    (tmp_path / "results" / "checkpoint.pt").write_bytes(b"not one")
    assert "checkpoint.pt is damaged" in _refuse(capsys, data, *results, "--resume")


def test_an_interrupted_run_says_how_to_continue(
    build: Builder, tmp_path: Path, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(train_bert.Training, "step", stop)
    data = str(build(_OPTIONS) / "out")
    assert train_bert.main([data, "--results", str(tmp_path)]) == 130
    assert "interrupted after step 0: nothing was saved yet" in capsys.readouterr().err


def test_losses_of_guessing_come_from_the_examples() -> None:
    def example(masked: list[int], second: int, label: int) -> dict[str, object]:
        types = np.array([0, 0] + [1] * second)
        return {
            "masked_lm_ids": np.array(masked), "token_type_ids": types, "next_sentence_label": label
        }  # fmt: skip

    pairs = [example([5, 6], 4, 0), example([5, 6], 3, 1), example([5], 1, 1), example([6], 1, 1)]
    baselines = loss_curves.find_baselines(pairs, vocab_size=8)
    assert baselines.frequency_mlm == pytest.approx(np.log(2))  # 5 and 6 are equally frequent
    assert baselines.uniform_mlm == pytest.approx(np.log(8))
    # Half of the pairs have an empty second segment, and their label is certain.
    assert baselines.lengths_nsp == pytest.approx(np.log(2) / 2)
    assert loss_curves.entropy(np.array([3, 0, 0])) == 0


def test_curves_are_moving_averages() -> None:
    assert loss_curves.smooth([4.0, 2.0, 0.0]) == [4.0, 3.0, 2.0]
    assert loss_curves.smooth([100.0] + [1.0] * 99)[-1] == 1.0


def test_the_verdict_fits_the_losses() -> None:
    for verdict, losses in {
        "generalizes to text": (0.4, 0.5),
        "by heart": (0.1, 0.9),
        "not learned anything yet": (0.69, 0.69),
    }.items():
        assert verdict in loss_curves.judge("next sentence", *losses, guessing=0.69)

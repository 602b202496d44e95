"""The recipes in docs/how-to, run as users run them."""

import json
import os
import re
import socket
import subprocess
import sys
from collections import Counter
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from corpusmill.formats.output_options import OutputOptions
from corpusmill.objectives.bert import BertOptions
from corpusmill.objectives.electra import ElectraOptions
from corpusmill.objectives.gpt import GptOptions
from corpusmill.objectives.objective_options import ObjectiveOptions
from corpusmill.reading.data_set import DataSet
from corpusmill.reading.torch.dataset import TensorLoader
from tests.conftest import CHECKOUT
from tests.examples.conftest import Builder
from tests.tools.traced_batches import run_two_ranks

PAGES = tuple(
    CHECKOUT / "docs" / "how-to" / f"{name}.md"
    for name in ("read-in-pytorch", "read-with-trainer-and-lightning", "read-in-other-frameworks")
)

_HEADING = re.compile(r"^## (.*)$", re.MULTILINE)
_BLOCK = re.compile(r"^```python(?: title=\"needs [^\"]*\")?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def read_blocks(*pages: Path) -> dict[str, list[str]]:
    """Return the Python blocks of each section that has some, by its heading.

    Args:
        pages: by default those of the recipes.
    """
    blocks = {}
    for page in pages or PAGES:
        _, *parts = _HEADING.split(page.read_text(encoding="utf-8"))
        sections = zip(parts[::2], parts[1::2], strict=True)
        blocks.update({name: found for name, text in sections if (found := _BLOCK.findall(text))})
    return blocks


def run_recipes(folder: Path, *recipes: str) -> dict[str, Any]:
    """Change to the folder with the data set `out`, and run blocks there in order.

    Args:
        folder: the folder; a fixture changes back.
        recipes: headings; "GPT 2" is only the second block of that section.

    Returns:
        The names that the blocks have defined.
    """
    os.chdir(folder)
    names: dict[str, Any] = {"__name__": "recipe"}
    for recipe in recipes:
        exec(compile(find_code(recipe), recipe, "exec"), names)  # noqa: S102  the code of our page
    return names


def find_code(recipe: str) -> str:
    """Return the code of a section, or of one of its blocks."""
    heading, _, number = recipe.rpartition(" ")
    blocks = read_blocks()
    if number.isdigit():
        return blocks[heading][int(number) - 1]
    return "\n".join(blocks[recipe])


_STATIC = BertOptions(max_seq_length=64, duplicates=2)
_DYNAMIC = BertOptions(max_seq_length=64, duplicates=2, mask="dynamic")


def _assert_falling(losses: list[float], least: float = 0.3) -> None:
    assert np.mean(losses[-5:]) < np.mean(losses[:3]) - least, losses


def test_every_recipe_is_run_by_a_test() -> None:
    tests = Path(__file__).read_text()
    # Those of the last page that no test here runs are run with the page by tests/docs.
    for heading in read_blocks(*PAGES[:-1]):
        assert f'"{heading}' in tests, heading


@pytest.mark.parametrize("options", [_STATIC, _DYNAMIC], ids=["static", "dynamic"])
def test_bert_learns_and_resumes(options: BertOptions, build: Builder) -> None:
    names = run_recipes(build(options), "Batches", "BERT", "Resuming")
    _assert_falling(names["losses"])
    assert names["loader"].epoch == 2
    assert next(iter(names["loader"]))["input_ids"].shape[0] == 8


@pytest.mark.parametrize(
    ("options", "recipes", "packed"),
    [
        (GptOptions(), ("GPT 1", "GPT 3"), False),
        (GptOptions(), ("GPT 2", "GPT 3"), True),
        (GptOptions(mode="windows", max_seq_length=48, overlap=8), ("GPT 3",), False),
        (GptOptions(mode="pack", max_seq_length=64), ("GPT 3",), True),
    ],
    ids=["windows of a stream", "packs of a stream", "windows", "pack"],
)
def test_gpt_learns(
    options: ObjectiveOptions, recipes: tuple[str, ...], packed: bool, build: Builder
) -> None:
    names = run_recipes(build(options), "Batches", *recipes)
    _assert_falling(names["losses"], 0.2)
    assert ("position_ids" in names["batch"]) == packed


def test_a_model_of_masked_diffusion_learns(build: Builder) -> None:
    folder = build(GptOptions(mode="windows", max_seq_length=48))
    _assert_falling(run_recipes(folder, "Batches", "Masked diffusion")["losses"], 0.2)


def test_electra_learns(build: Builder) -> None:
    names = run_recipes(
        build(ElectraOptions(max_seq_length=64, duplicates=2)), "Batches", "ELECTRA"
    )
    _assert_falling(names["losses"])
    assert names["judged"].loss < 0.6
    batch, labels = names["batch"], names["labels"]
    changed = names["replaced"] == 1
    assert torch.equal(changed, (labels >= 0) & (batch["input_ids"] != labels))


def test_packed_documents_do_not_see_each_other(build: Builder) -> None:
    names = run_recipes(build(GptOptions(mode="pack", max_seq_length=64)), "Batches", "GPT 3")
    model, batch = names["model"].eval(), names["batch"]
    starts = (batch["position_ids"][:, 2:-2] == 0).nonzero()
    row, begin = starts[0].tolist()
    begin += 2  # of a document after another one
    with torch.no_grad():
        before = model(**batch).logits[row, begin:]
        batch["input_ids"][row, :begin] = 5
        assert torch.allclose(model(**batch).logits[row, begin:], before, atol=1e-5)


def test_trainer_learns(build: Builder, tmp_path: Path) -> None:
    (tmp_path / "out").symlink_to(build(_DYNAMIC) / "out")
    names = run_recipes(tmp_path, "Data and model", "Trainer")
    logged = [entry["loss"] for entry in names["trainer"].state.log_history if "loss" in entry]
    assert logged[-1] < logged[0] - 0.3
    assert names["dataset"].epoch == 1  # so that each epoch has its own masks
    names["SetEpoch"]().on_epoch_begin(None, SimpleNamespace(epoch=4.5), None)
    assert names["dataset"].epoch == 4
    validation = names["trainer"].eval_dataset
    validation.set_epoch(1)  # as persistent workers are told
    assert validation.epoch == 0
    last = [entry for entry in names["trainer"].state.log_history if "eval_loss" in entry][-1]
    assert names["trainer"].evaluate()["eval_loss"] == last["eval_loss"]


def test_validation_has_the_same_masks_each_time(build: Builder) -> None:
    names = run_recipes(build(_DYNAMIC), "Batches", "BERT", "Validation", "Epochs")
    model, held_out = names["model"], names["held_out"]
    next(iter(held_out))  # a loop that is left early
    before = names["evaluate"](model)
    assert names["evaluate"](model) == before
    assert names["dataset"].epoch == 1


def test_accelerate_learns(build: Builder, tmp_path: Path) -> None:
    (tmp_path / "out").symlink_to(build(_DYNAMIC) / "out")
    names = run_recipes(tmp_path, "Data and model", "Accelerate")
    first, second = names["evaluations"]
    assert second < first
    losses = [names["compute_loss"](batch).item() for batch in names["held_out"]]
    assert len(losses) == len(names["held_out"])
    assert names["loader"].epoch == 2


def test_lightning_learns(build: Builder, tmp_path: Path) -> None:
    pytest.importorskip("lightning", reason="lightning is not installed")
    (tmp_path / "out").symlink_to(build(_DYNAMIC) / "out")
    names = run_recipes(tmp_path, "Data and model", "Lightning")
    trainer, loader = names["trainer"], names["loader"]
    assert trainer.callback_metrics["loss"] < 6.7
    assert trainer.global_step == 2 * len(loader)
    assert loader.state_dict()["number"] == 2 * len(names["samples"])
    # All of the split, also behind the batches of the sanity check, and with the same masks.
    loss = trainer.callback_metrics["validation loss"].item()
    [validated] = trainer.validate(trainer.lightning_module, names["held_out"], verbose=False)
    assert validated["validation loss"] == loss

    resumed, another = type(trainer)(max_epochs=3, logger=False), type(loader)(names["batches"])
    checkpoint = trainer.checkpoint_callback.best_model_path
    resumed.fit(names["Pretraining"](names["config"]), another, ckpt_path=checkpoint)
    assert resumed.global_step == 3 * len(loader)
    assert another.state_dict()["number"] == 3 * len(names["samples"])


# These lines around the recipe record what each rank reads and learns.
_RECORD = """
import json
from pathlib import Path
from corpusmill.reading.data_set import DataSet
from corpusmill.reading.torch.dataset import TensorLoader
read, take = [], DataSet.take
def recording(self, samples, epochs=None):
    read.extend(samples.tolist())
    return take(self, samples, epochs)
DataSet.take = recording
"""
_REPORT = """
learned = [tensor.double().sum().item() for tensor in model.state_dict().values()]
report = {"read": read, "learned": learned, "loss": loss.item(), "all": len(samples)}
Path(f"rank-{distributed.get_rank()}.json").write_text(json.dumps(report))
distributed.destroy_process_group()
"""


def _run_rank(rank: int, program: str, port: int) -> None:
    """Run a program in an environment as torchrun makes it, without importing PyTorch thrice."""
    os.environ.update(
        RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE="2", MASTER_ADDR="127.0.0.1",
        MASTER_PORT=str(port), GLOO_SOCKET_IFNAME="lo",
    )  # fmt: skip
    exec(program, {"__name__": "__main__"})  # noqa: S102  the code of our page


def test_two_ranks_read_every_example_once_and_learn_the_same(
    build: Builder, tmp_path: Path
) -> None:
    (tmp_path / "out").symlink_to(build(_DYNAMIC) / "out")
    # Compiles the kernels once for both ranks.
    next(iter(TensorLoader(run_recipes(tmp_path, "Batches")["batches"])))
    recipes = [find_code(recipe) for recipe in ("Batches", "BERT 1", "Several processes")]
    program = "\n".join([_RECORD, *recipes, _REPORT])
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    run_two_ranks(_run_rank, program, port)
    first, second = (json.loads((tmp_path / f"rank-{rank}.json").read_text()) for rank in range(2))
    assert Counter(first["read"] + second["read"]) == Counter(range(first["all"]))
    assert abs(len(first["read"]) - len(second["read"])) <= 1
    assert first["learned"] == second["learned"]
    assert first["loss"] != second["loss"]  # each with its own batches


def test_dataloader_reads_everything_in_its_order_and_in_ours(build: Builder) -> None:
    names = run_recipes(build(_DYNAMIC), "Batches", "DataLoader")
    size = len(names["samples"])
    by_number, ours, streaming = (
        list(names[loader]) for loader in ("by_number", "in_our_order", "streaming")
    )
    assert sum(len(batch["input_ids"]) for batch in by_number) == size
    assert sum(len(batch["input_ids"]) for batch in ours) == size
    for ordered, streamed in zip(ours, streaming, strict=True):
        assert ordered.keys() == streamed.keys()
        assert all(torch.equal(ordered[name], streamed[name]) for name in ordered)


# Importing these fails, as if they were not installed.
_WITHOUT_TORCH = """
import sys
sys.modules.update(dict.fromkeys(("torch", "transformers", "datasets")))
"""
_SAVE = """
import numpy
batches = Loader(loader.batches)
numpy.savez("batches.npz", *(batch[name] for batch in batches for name in sorted(batch)))
"""


def test_numpy_batches_equal_those_of_torch(build: Builder, tmp_path: Path) -> None:
    (tmp_path / "out").symlink_to(build(_DYNAMIC) / "out")
    program = "\n".join([_WITHOUT_TORCH, find_code("NumPy and JAX"), _SAVE])
    environment = {**os.environ, "PYTHONPATH": str(CHECKOUT)}
    subprocess.run([sys.executable, "-c", program], cwd=tmp_path, env=environment, check=True)

    names = run_recipes(tmp_path, "NumPy and JAX")
    assert names["input_ids"].shape == (16, 64)
    expected = [
        tensor.numpy()
        for batch in TensorLoader(names["loader"].batches)
        for _, tensor in sorted(batch.items())
    ]
    with np.load(tmp_path / "batches.npz") as arrays:
        assert len(arrays) == len(expected)
        for array, tensor in zip(arrays.values(), expected, strict=True):
            assert np.array_equal(array, tensor)


def test_tensorflow_reads_every_row(build: Builder, tmp_path: Path) -> None:
    if find_spec("tensorflow") is None:
        pytest.skip("TensorFlow is not installed")
    output = OutputOptions(output_format="tfrecord")
    (tmp_path / "out").symlink_to(build(_STATIC, output) / "out")
    save = """
rows = [row.tolist() for batch in dataset for row in batch["input_ids"].numpy()]
Path("rows.json").write_text(json.dumps(sorted(rows)))
"""
    program = find_code("TensorFlow") + save
    # A separate process, as TensorFlow and PyTorch do not always work together in one.
    subprocess.run([sys.executable, "-c", program], cwd=tmp_path, check=True)
    data_set = DataSet(tmp_path / "out")
    expected = [
        example["input_ids"].tolist() + [0] * (64 - len(example["input_ids"]))
        for example in data_set.take(np.arange(len(data_set)))
    ]
    assert json.loads((tmp_path / "rows.json").read_text()) == sorted(expected)


def test_datasets_gives_tensors(build: Builder, tmp_path: Path) -> None:
    (tmp_path / "out").symlink_to(build(_STATIC) / "out")
    names = run_recipes(tmp_path, "Batches", "Tables 1")
    samples, examples = names["samples"], names["examples"]
    assert names["first"].dtype == torch.int64
    assert len(examples) == len(samples)
    for loaded, example in zip(examples, samples.take(np.arange(len(samples))), strict=True):
        assert loaded["input_ids"].tolist() == example["input_ids"].tolist()
        assert loaded["next_sentence_label"] == example["next_sentence_label"]


def test_duckdb_reads_the_shards(build: Builder) -> None:
    pytest.importorskip("duckdb", reason="duckdb is not installed")
    names = run_recipes(build(_STATIC), "Batches", "Tables 2", "Tables 3")
    samples = names["samples"]
    lengths = samples.lengths(np.arange(len(samples)))
    assert (names["shortest"], names["longest"]) == (lengths.min(), lengths.max())


def test_polars_reads_the_shards(build: Builder) -> None:
    names = run_recipes(build(_STATIC), "Batches", "Tables 2", "Tables 4")
    samples = names["samples"]
    labels = samples.take(np.arange(len(samples))).columns["next_sentence_label"]
    assert names["random_share"] == pytest.approx(labels.mean())

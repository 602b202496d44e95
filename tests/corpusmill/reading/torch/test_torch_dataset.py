import copy
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, Subset
from torchdata.stateful_dataloader import StatefulDataLoader

from corpusmill.errors import UserError
from corpusmill.reading.collate.collators import collator_for
from corpusmill.reading.data_set import DataSet
from corpusmill.reading.load.batches import Batches
from corpusmill.reading.rows import Rows
from corpusmill.reading.torch.dataset import (
    EpochBatchSampler,
    MapDataset,
    TensorLoader,
    find_rank,
    to_tensors,
)
from corpusmill.reading.torch.streaming import StreamingDataset
from tests.tools.traced_batches import TracedCollator, forked, key, read_plainly


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


def load(dataset: MapDataset, num_workers: int, **options: Any) -> DataLoader[Any]:
    return DataLoader(dataset, collate_fn=dataset.collate, **forked(num_workers), **options)


def make_dataset(folder: Path, cache: Path, **options: Any) -> MapDataset:
    samples = DataSet(folder, cache_folder=cache)
    return MapDataset(samples, collator_for(samples, **options))


@pytest.mark.parametrize("num_workers", [0, 2])
def test_data_loader_gives_what_the_collator_makes_of_each_example(
    bert_dynamic: Path, cache: Path, num_workers: int
) -> None:
    dataset = make_dataset(bert_dynamic, cache, padding="max_length")
    samples = dataset.samples
    collator = collator_for(samples, padding="max_length")
    expected = collator(collator.prepare(samples.take(np.arange(len(samples)))))
    read = list(load(dataset, num_workers, batch_size=7))
    assert set(read[0]) == set(expected)
    for name, array in expected.items():
        assert torch.cat([batch[name] for batch in read]).numpy().tolist() == array.tolist()


def test_examples_of_wrapped_datasets_are_collated_likewise(
    bert_dynamic: Path, cache: Path
) -> None:
    dataset = make_dataset(bert_dynamic, cache)
    dataset.set_epoch(3)
    whole = dataset.collate(dataset.__getitems__([5, 1, 8]))
    one_by_one = dataset.collate([dataset[5], dataset[1], dataset[8]])
    wrapped = next(iter(DataLoader(Subset(dataset, [5, 1, 8]), 3, collate_fn=dataset.collate)))
    for batch in (one_by_one, wrapped):
        assert set(batch) == set(whole)
        assert all(torch.equal(batch[name], whole[name]) for name in whole)


def test_the_epoch_reaches_workers_that_run(batches: Batches) -> None:
    dataset = MapDataset(batches.samples, TracedCollator())
    loader = load(dataset, 1, batch_size=50, persistent_workers=True)
    for epoch in (0, 5):
        dataset.set_epoch(epoch)
        assert {epoch_read for batch in loader for epoch_read, _ in key(batch)} == {epoch}


def test_a_fixed_epoch_is_neither_set_nor_passed(batches: Batches) -> None:
    dataset = MapDataset(batches.samples, TracedCollator(), epoch=3)
    sampler = EpochBatchSampler(batches)
    for loader in (load(dataset, 1, batch_size=50), load(dataset, 0, batch_sampler=sampler)):
        dataset.set_epoch(5)
        assert {epoch for batch in loader for epoch, _ in key(batch)} == {3}
    assert dataset.epoch == 3
    with pytest.raises(UserError, match="epoch=-1: there is no such epoch"):
        MapDataset(batches.samples, epoch=-1)


def test_a_copy_has_an_epoch_of_its_own(batches: Batches) -> None:
    dataset = MapDataset(batches.samples)
    copied = copy.deepcopy(dataset)
    copied.set_epoch(2)
    assert (dataset.epoch, copied.epoch) == (0, 2)


def test_numbers_beyond_the_last_example_are_none(batches: Batches) -> None:
    dataset = MapDataset(batches.samples)
    assert dataset[-1]["input_ids"].tolist() == dataset[len(dataset) - 1]["input_ids"].tolist()
    with pytest.raises(IndexError):
        dataset[len(dataset)]
    with pytest.raises(UserError, match="collator=None"):
        _ = dataset.collate


def test_collators_of_hugging_face_take_examples_as_they_are(
    gpt_windows: Path, cache: Path
) -> None:
    transformers = import_module("transformers")  # it is slow, and most tests do without
    dataset = MapDataset(DataSet(gpt_windows, cache_folder=cache))
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_file=str(gpt_windows / "tokenizer.json"),
        pad_token="<|endoftext|>",  # noqa: S106  no password
    )
    collator = transformers.DataCollatorForLanguageModeling(tokenizer, mlm=False)
    batch = next(iter(DataLoader(dataset, batch_size=4, collate_fn=collator)))
    lengths = batch["attention_mask"].sum(dim=1).tolist()
    assert lengths == [len(dataset[place]["input_ids"]) for place in range(4)]
    assert batch["input_ids"][0, : lengths[0]].tolist() == dataset[0]["input_ids"].tolist()


@pytest.mark.parametrize(("num_workers", "persistent"), [(0, False), (1, False), (2, True)])
def test_the_sampler_gives_the_batches_of_the_stream(
    batches: Batches, num_workers: int, persistent: bool
) -> None:
    dataset = MapDataset(batches.samples, TracedCollator())
    sampler = EpochBatchSampler(batches, 1, 2)
    loader = load(dataset, num_workers, batch_sampler=sampler, persistent_workers=persistent)
    for epoch in (0, 1):
        assert [key(batch) for batch in loader] == read_plainly(batches, epoch, 1, 2)
    sampler.set_epoch(0)
    assert [key(batch) for batch in loader] == read_plainly(batches, 0, 1, 2)
    assert len(loader) == len(read_plainly(batches, 0, 1, 2))
    resumed = EpochBatchSampler(batches, 1, 2)
    resumed.load_state_dict(sampler.state_after(4))
    assert len(list(resumed)) == len(sampler) - 4


@pytest.mark.filterwarnings("ignore:'set_vital' is deprecated")
@pytest.mark.parametrize("num_workers", [0, 2])
def test_stateful_data_loader_knows_how_far_the_sampler_is(
    batches: Batches, num_workers: int
) -> None:
    dataset = MapDataset(batches.samples, TracedCollator())

    def start() -> Any:
        sampler, options = EpochBatchSampler(batches), forked(num_workers)
        return StatefulDataLoader(
            dataset, batch_sampler=sampler, collate_fn=dataset.collate, **options
        )

    loader = start()
    iterator = iter(loader)
    for _ in range(3):
        next(iterator)
    resumed = start()
    resumed.load_state_dict(loader.state_dict())
    assert [key(batch) for batch in resumed] == read_plainly(batches, 0)[3:]
    assert [key(batch) for batch in resumed] == read_plainly(batches, 1)


class Refusing(TracedCollator):
    def prepare(self, rows: Rows) -> Rows:  # noqa: ARG002  as collators are called
        raise UserError("train-0.parquet", "it is missing", "Copy it")


@pytest.mark.parametrize("num_workers", [0, 1])
def test_mistakes_stay_user_errors_in_workers(batches: Batches, num_workers: int) -> None:
    dataset = MapDataset(batches.samples, Refusing())
    with pytest.raises(UserError, match=r"train-0.parquet: it is missing. Copy it."):
        next(iter(load(dataset, num_workers)))


def train(dataset: MapDataset, folder: Path, **options: Any) -> list[float]:
    transformers = import_module("transformers")
    config = transformers.BertConfig(
        vocab_size=dataset.samples.manifest.tokenizer.vocab_size, hidden_size=16,
        num_hidden_layers=1, num_attention_heads=2, intermediate_size=32,
        max_position_embeddings=64,
    )  # fmt: skip
    arguments = transformers.TrainingArguments(
        output_dir=str(folder), max_steps=4, logging_steps=1, per_device_train_batch_size=4,
        report_to=[], save_strategy="no", use_cpu=True, disable_tqdm=True, seed=1, **options,
    )  # fmt: skip
    torch.manual_seed(1)
    model = transformers.BertForPreTraining(config)
    trainer = transformers.Trainer(model, arguments, dataset.collate, train_dataset=dataset)
    trainer.train()
    return [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]


def test_trainer_of_transformers_takes_it(bert: Path, cache: Path, tmp_path: Path) -> None:
    dataset = make_dataset(bert, cache)
    with_all_columns = train(dataset, tmp_path, remove_unused_columns=False)
    assert with_all_columns == train(dataset, tmp_path)
    assert len(with_all_columns) == 4


def test_tensors_are_the_arrays_themselves() -> None:
    array = np.arange(6).reshape(2, 3)
    tensor = to_tensors({"input_ids": array})["input_ids"]
    array[1, 2] = 42
    assert tensor.tolist() == [[0, 1, 2], [3, 4, 42]]


def test_workers_of_data_loader_send_a_batch_as_one_piece_of_memory(batches: Batches) -> None:
    loader = DataLoader(StreamingDataset(batches), batch_size=None, **forked(1))
    for sent, here in zip(loader, StreamingDataset(batches), strict=True):
        assert sent.keys() == here.keys()
        assert all(torch.equal(sent[name], here[name]) for name in here)
        assert all(sent[name].dtype == here[name].dtype for name in here)
        assert len({tensor.untyped_storage().data_ptr() for tensor in sent.values()}) == 1


def test_batches_are_those_of_a_plain_loop(batches: Batches) -> None:
    loader = TensorLoader(batches, 0, 2, pin_memory=True)
    first = list(islice(loader, 4))
    resumed = TensorLoader(batches, 0, 2)
    resumed.load_state_dict(loader.state_dict())
    read = [*first, *resumed]
    assert all(isinstance(tensor, torch.Tensor) for batch in read for tensor in batch.values())
    assert [key(batch) for batch in read] == read_plainly(batches, 0, 0, 2)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="memory is pinned for a GPU")
def test_batches_are_pinned(batches: Batches) -> None:
    batch = next(iter(TensorLoader(batches, 0, 1, pin_memory=True)))
    assert all(tensor.is_pinned() for tensor in batch.values())


def test_ranks_are_those_that_torchrun_sets(monkeypatch: pytest.MonkeyPatch) -> None:
    assert find_rank(None, None) == (0, 1)
    monkeypatch.setenv("RANK", "2")
    monkeypatch.setenv("WORLD_SIZE", "3")
    assert find_rank(None, None) == (2, 3)
    assert find_rank(0, 1) == (0, 1)
    with pytest.raises(UserError, match="rank=1, world_size=None"):
        find_rank(1, None)

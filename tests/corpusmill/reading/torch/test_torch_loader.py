from itertools import islice

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

from corpusmill.errors import UserError
from corpusmill.reading.load.batches import Batches
from corpusmill.reading.torch.dataset import TensorLoader, find_rank, to_tensors
from corpusmill.reading.torch.streaming import StreamingDataset
from tests.tools.traced_batches import forked, key, read_plainly


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

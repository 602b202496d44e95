import json
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader
from torchdata.stateful_dataloader import StatefulDataLoader

from corpusmill.errors import UserError
from corpusmill.reading.load.batches import Batches
from corpusmill.reading.load.length_batches import LengthBatches
from corpusmill.reading.mixture import mix
from corpusmill.reading.torch.dataset import TensorLoader
from corpusmill.reading.torch.streaming import StreamingDataset, stream_state
from tests.tools.numbered_samples import AsTheyAre, NumberedSamples
from tests.tools.traced_batches import Key, forked, key, read_plainly, run_two_ranks


def load(dataset: StreamingDataset, num_workers: int, persistent: bool = False) -> Any:
    workers = {**forked(num_workers), "persistent_workers": persistent}
    return DataLoader(dataset, batch_size=None, **workers)


@pytest.mark.parametrize(
    ("num_workers", "persistent"), [(0, False), (1, True), (2, False), (2, True)]
)
def test_each_iteration_is_the_next_epoch(
    batches: Batches, num_workers: int, persistent: bool
) -> None:
    dataset = StreamingDataset(batches, 1, 3)
    loader = load(dataset, num_workers, persistent)
    for epoch in (0, 1):
        read = [key(batch) for batch in loader]
        assert read == read_plainly(batches, epoch, 1, 3)
        assert len(read) == len(loader)
    for epoch in (4, 4, 0):
        dataset.set_epoch(epoch)
        assert [key(batch) for batch in loader] == read_plainly(batches, epoch, 1, 3)


@pytest.mark.parametrize("persistent", [False, True])
def test_an_iteration_whose_workers_are_stopped_counts_as_an_epoch(
    batches: Batches, persistent: bool
) -> None:
    loader = load(StreamingDataset(batches), 2, persistent)
    assert [key(batch) for batch in islice(loader, 3)] == read_plainly(batches, 0)[:3]
    assert [key(batch) for batch in islice(loader, 3)] == read_plainly(batches, 1)[:3]
    assert [key(batch) for batch in loader] == read_plainly(batches, 2)


@pytest.mark.parametrize("num_workers", [0, 2])
def test_a_count_of_batches_gives_the_state(batches: Batches, num_workers: int) -> None:
    dataset = StreamingDataset(batches)
    loader = load(dataset, num_workers)
    for epoch in (0, 1):
        whole = [key(batch) for batch in loader]
        resumed = StreamingDataset(batches)
        if num_workers:
            assert dataset.epoch == epoch
            resumed.load_state_dict(dataset.state_after(5))
            assert resumed.epoch == epoch
            resumed.set_epoch(epoch)
            assert [key(batch) for batch in load(resumed, 1)] == whole[5:]
            resumed.set_epoch(epoch + 1)
            assert [key(batch) for batch in load(resumed, 1)] == read_plainly(batches, epoch + 1)
    with pytest.raises(UserError, match="the epoch had"):
        dataset.state_after(10_000)


@pytest.mark.parametrize("num_workers", [0, 2])
def test_batches_by_length_of_a_mixture_resume_within_a_pool(num_workers: int) -> None:
    other = NumberedSamples((500,), 40, seed=1, digest="other")
    samples, order = mix([NumberedSamples((900, 300), 40), other], [2, 1], seed=4)
    batches = Batches(samples, order, LengthBatches(samples, order, max_tokens=400), AsTheyAre())
    whole = [batch["samples"].tolist() for batch in load(StreamingDataset(batches), 0)]
    state = json.loads(json.dumps(StreamingDataset(batches).state_after(20)))
    assert state["taken"]
    resumed = StreamingDataset(batches)
    resumed.load_state_dict(state)
    read = [batch["samples"].tolist() for batch in load(resumed, num_workers)]
    assert read == whole[20:]


def test_persistent_workers_refuse_a_state_that_they_cannot_load(batches: Batches) -> None:
    dataset = StreamingDataset(batches)
    loader = load(dataset, 1, persistent=True)
    last = dataset.state_after(len(loader))
    next(iter(loader))
    dataset.load_state_dict(last)
    with pytest.raises(UserError, match="the workers are running already"):
        next(iter(loader))


def stateful(batches: Batches, num_workers: int) -> Any:
    return StatefulDataLoader(StreamingDataset(batches), batch_size=None, **forked(num_workers))


@pytest.mark.filterwarnings("ignore:'set_vital' is deprecated")
@pytest.mark.parametrize(("num_workers", "end"), [(0, 3), (0, 0), (0, -1), (2, 3), (1, 0), (2, -1)])
def test_stateful_data_loader_resumes_exactly(batches: Batches, num_workers: int, end: int) -> None:
    """The loop is left in its middle (3), after the last batch (0), and by its end (-1)."""
    epochs = [read_plainly(batches, epoch) for epoch in range(3)]
    stop = 3 if end == 3 else len(epochs[0]) - end
    loader = stateful(batches, num_workers)
    iterator = iter(loader)
    assert [key(batch) for batch in islice(iterator, stop)] == epochs[0][:stop]
    state = loader.state_dict()
    resumed = stateful(batches, num_workers)
    resumed.load_state_dict(state)
    begun = 1 if end == -1 else 0
    assert [key(batch) for batch in resumed] == epochs[begun][0 if begun else stop :]
    assert [key(batch) for batch in resumed] == epochs[begun + 1]
    other = TensorLoader(batches)
    other.load_state_dict(stream_state(state))
    assert [key(batch) for batch in other] == epochs[begun][0 if begun else stop :]


@pytest.mark.filterwarnings("ignore:'set_vital' is deprecated")
def test_stateful_data_loader_with_other_workers_is_refused(batches: Batches) -> None:
    loader = stateful(batches, 1)
    next(iter(loader))
    state = loader.state_dict()
    other = stateful(batches, 2)
    other.load_state_dict(state)
    with pytest.raises(UserError, match="the state is that of worker 0 of 1"):
        iter(other)
    with pytest.raises(UserError, match="the state is that of worker 0 of 1"):
        StreamingDataset(batches).load_state_dict(
            state["_snapshot"]["_worker_snapshots"]["worker_0"]["dataset_state"]
        )


def test_other_states_are_refused() -> None:
    with pytest.raises(UserError, match="does not contain the state"):
        stream_state({})
    with pytest.raises(UserError, match="2 steps old"):
        stream_state({"_snapshot": {}, "_steps_since_snapshot": 2})


def _read_as_rank(rank: int, folder: Path, batches: Batches) -> None:
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{folder}/store", rank=rank, world_size=2
    )
    read: list[list[list[Key]]] = [[], []]
    own = [
        [key(batch) for batch in TensorLoader(batches)],
        [key(batch) for batch in load(StreamingDataset(batches), 0)],
    ]
    torch.distributed.all_gather_object(read, own)
    torch.distributed.destroy_process_group()
    for number, keys in enumerate(read):
        assert keys == [read_plainly(batches, 0, number, 2)] * 2
    (folder / f"{rank}.done").touch()


def test_ranks_of_torch_distributed_share_the_samples(batches: Batches, tmp_path: Path) -> None:
    run_two_ranks(_read_as_rank, tmp_path, batches)
    assert len(list(tmp_path.glob("*.done"))) == 2

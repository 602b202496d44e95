import json
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corpusmill.errors import UserError
from corpusmill.reading.load.batches import Batches
from corpusmill.reading.load.loader import Loader
from corpusmill.reading.order.length_batches import LengthBatches
from corpusmill.reading.order.schedule import Batching, FixedBatches, Position
from corpusmill.reading.rows import Rows
from tests.tools.traced_batches import (
    EndlessOrder,
    Key,
    TracedCollator,
    forked,
    key,
    read_plainly,
)


@pytest.mark.parametrize("num_workers", [0, 1, 2])
def test_batches_are_those_of_a_plain_loop_epoch_after_epoch(
    batches: Batches, num_workers: int
) -> None:
    loader = Loader(batches, 1, 2, **forked(num_workers))
    for epoch in range(2):
        assert loader.epoch == epoch
        read = [key(batch) for batch in loader]
        assert read == read_plainly(batches, epoch, 1, 2)
        assert len(read) == len(loader)


def test_blocks_stay_until_they_are_read(batches: Batches) -> None:
    order = EndlessOrder(batches.samples.shard_sizes)
    endless = replace(batches, order=order, batching=FixedBatches(512))
    loader = Loader(endless, prefetch_factor=0, **forked(1))
    for sent, here in islice(zip(loader, Loader(endless), strict=True), 40):
        assert sent["sample"].tolist() == here["sample"].tolist()
        assert np.array_equal(sent["input_ids"], here["input_ids"])


def test_spawned_workers_read_the_same(batches: Batches) -> None:
    loader = Loader(batches, num_workers=1, multiprocessing_context="spawn")
    assert [key(batch) for batch in loader] == read_plainly(batches, 0)


@settings(max_examples=15, deadline=None)
@given(
    world_size=st.integers(1, 4),
    batch_size=st.integers(1, 9),
    drop_last=st.booleans(),
    max_tokens=st.sampled_from([None, None, 100, 300]),
    prefetch_factor=st.sampled_from([0, 3]),
    stops=st.lists(st.integers(0, 30), max_size=4),
)
def test_a_stopped_and_resumed_run_reads_the_same_as_an_uninterrupted_one(
    batches: Batches,
    world_size: int,
    batch_size: int,
    drop_last: bool,
    max_tokens: int | None,
    prefetch_factor: int,
    stops: list[int],
) -> None:
    batching: Batching = FixedBatches(batch_size, drop_last)
    if max_tokens:
        samples, pool_size = batches.samples, 16 * batch_size
        batching = LengthBatches(samples, batches.order, None, max_tokens, pool_size=pool_size)
    batches = replace(batches, batching=batching)
    rank = world_size - 1

    def start() -> Loader:
        return Loader(batches, rank, world_size, prefetch_factor=prefetch_factor)

    def read(loader: Loader, stop: int | None = None) -> Iterator[tuple[int, Key]]:
        epoch = loader.epoch
        return ((epoch, key(batch)) for batch in islice(loader, stop))

    loader = start()
    resumed: list[tuple[int, Key]] = []
    for stop in stops:
        resumed += read(loader, stop)
        state = json.loads(json.dumps(loader.state_dict()))
        loader = start()
        loader.load_state_dict(state)
    while loader.epoch < 3:
        resumed += read(loader)
    whole = start()
    expected = [batch for _ in range(loader.epoch) for batch in read(whole)]
    assert resumed == expected
    assert whole.state_dict() == loader.state_dict()


def test_too_few_samples_for_more_ranks_are_read_with_the_next_epoch(batches: Batches) -> None:
    size = len(batches.order)
    left = Loader(replace(batches, batching=FixedBatches(1)))
    left.load_state_dict(batches.state_dict(Position(size - 2)))
    read = []
    for rank in range(5):
        loader = Loader(batches, rank, 5)
        loader.load_state_dict(left.state_dict())
        assert loader.epoch == 1
        read += [pair for batch in loader for pair in key(batch)]
        assert loader.epoch == 2
    expected = [(1, sample) for sample in range(size)]
    assert sorted(read) == [*sorted(pair for batch in left for pair in key(batch)), *expected]


def test_each_sample_is_read_once_when_ranks_and_batch_size_change(batches: Batches) -> None:
    read: list[tuple[int, int]] = []
    state = Loader(batches).state_dict()
    for world_size, batch_size in [(3, 2), (1, 5), (2, 3)]:
        changed = replace(batches, batching=FixedBatches(batch_size))
        for rank in range(world_size):
            loader = Loader(changed, rank, world_size)
            loader.load_state_dict(state)
            # The last one reads to the end of the epoch.
            taken = islice(loader, 3 if world_size != 2 else None)
            read += [pair for batch in taken for pair in key(batch)]
        state = loader.state_dict()
    assert sorted(read) == [(0, sample) for sample in range(len(batches.order))]


def test_a_state_of_the_last_step_ends_its_epoch_first(batches: Batches) -> None:
    loader = Loader(batches)
    iterator = iter(loader)
    for _ in range(len(loader)):
        next(iterator)
    resumed = Loader(batches)
    resumed.load_state_dict(loader.state_dict())
    assert resumed.epoch == 0
    assert list(resumed) == []
    assert resumed.epoch == 1
    assert [key(batch) for batch in resumed] == read_plainly(batches, 1)


def test_setting_the_epoch_that_is_being_read_changes_nothing(batches: Batches) -> None:
    loader = Loader(batches)
    loader.set_epoch(2)
    first = [key(batch) for batch in islice(loader, 3)]
    loader.set_epoch(2)
    assert first + [key(batch) for batch in loader] == read_plainly(batches, 2)
    loader.set_epoch(0)
    assert [key(batch) for batch in loader] == read_plainly(batches, 0)
    with pytest.raises(UserError, match=r"set_epoch\(-1\)"):
        loader.set_epoch(-1)


def test_an_epoch_without_a_batch_is_refused(batches: Batches) -> None:
    batching = FixedBatches(len(batches.order) + 1, drop_last=True)
    with pytest.raises(UserError, match="is too short for one batch per rank"):
        next(iter(Loader(replace(batches, batching=batching))))


@pytest.mark.parametrize("value", ["num_workers", "prefetch_factor"])
def test_negative_numbers_are_refused(batches: Batches, value: str) -> None:
    options: dict[str, Any] = {value: -1}
    with pytest.raises(UserError, match=f"{value}=-1"):
        Loader(batches, **options)


@pytest.mark.parametrize("num_workers", [0, 2])
def test_a_loop_that_is_left_leaves_no_thread_and_no_process(
    batches: Batches, num_workers: int
) -> None:
    before = threading.active_count()
    # Workers with an end would reach it while this loop begins.
    endless = replace(batches, order=EndlessOrder(batches.samples.shard_sizes))
    loader = Loader(endless, **forked(num_workers))
    for _ in loader:
        assert threading.active_count() > before
        assert len(multiprocessing.active_children()) == num_workers
        break
    assert threading.active_count() == before
    assert not multiprocessing.active_children()


class Failing(TracedCollator):
    def __init__(self, error: Exception) -> None:
        self.error = error

    def prepare(self, rows: Rows) -> Rows:  # noqa: ARG002  as collators are called
        raise self.error


@pytest.mark.parametrize("num_workers", [0, 1])
def test_errors_reach_the_loop_unchanged(batches: Batches, num_workers: int) -> None:
    error = UserError("train-0.parquet", "it is missing", "Copy it")
    failing = replace(batches, collator=Failing(error))
    with pytest.raises(UserError) as raised:
        next(iter(Loader(failing, **forked(num_workers))))
    assert str(raised.value) == str(error)
    assert raised.value.cure == "Copy it"


def test_other_errors_of_workers_say_where_they_were_raised(batches: Batches) -> None:
    failing = replace(batches, collator=Failing(ZeroDivisionError("by zero")))
    with pytest.raises(ZeroDivisionError) as raised:
        next(iter(Loader(failing, **forked(1))))
    assert "in prepare" in raised.value.__notes__[0]


def test_a_killed_worker_is_reported(batches: Batches) -> None:
    batches = replace(batches, order=EndlessOrder(batches.samples.shard_sizes))
    loader = Loader(batches, **forked(1))
    batch = iter(loader)
    next(batch)
    (worker,) = multiprocessing.active_children()
    worker.kill()
    with pytest.raises(UserError, match=r"num_workers=1: worker 0 was killed .*SIGKILL"):
        deque(batch, maxlen=0)


READ_ENDLESSLY = """
import multiprocessing, signal, sys
from corpusmill.reading.load.batches import Batches
from corpusmill.reading.data_set import DataSet
from corpusmill.reading.order.length_batches import LengthBatches
from corpusmill.reading.load.loader import Loader
from corpusmill.reading.order.schedule import Batching, FixedBatches, Position
from tests.tools.traced_batches import EndlessOrder, TracedCollator

signal.signal(signal.SIGINT, signal.default_int_handler)  # nohup and shells' background ignore it
data = DataSet(sys.argv[1], cache_folder=sys.argv[2])
order = EndlessOrder(data.shard_sizes)
batches = Batches(data, order, FixedBatches(4), TracedCollator())
for number, _ in enumerate(Loader(batches, num_workers=2, multiprocessing_context="fork")):
    if number == 50:
        print(*[child.pid for child in multiprocessing.active_children()], flush=True)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_an_ended_process_leaves_no_process_and_no_shared_memory(
    bert: Path, tmp_path: Path, sent: signal.Signals
) -> None:
    command = [sys.executable, "-c", READ_ENDLESSLY, str(bert), str(tmp_path / "cache")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        workers = [int(pid) for pid in process.stdout.readline().split()]
        assert len(workers) == 2
        for pid in [process.pid, *workers]:
            assert "/dev/shm" not in Path(f"/proc/{pid}/maps").read_text(encoding="utf-8")  # noqa: S108
        if sent == signal.SIGINT:  # as a terminal does
            os.killpg(process.pid, sent)
        else:
            process.send_signal(sent)
        _, errors = process.communicate()
    assert errors.count("Traceback") == (sent == signal.SIGINT)
    while any(_runs(pid) for pid in workers):
        time.sleep(0.05)


def _runs(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"  # in a container nobody reaps a process whose parent is dead


@pytest.mark.parametrize("close", [True, False])
def test_a_loop_that_counts_batches_reads_each_epoch(batches: Batches, close: bool) -> None:
    loader = Loader(batches)
    iterators = []
    for epoch in range(3):
        iterators.append(iter(loader))
        assert loader.epoch == epoch or not close
        counted = [key(batch) for batch in islice(iterators[-1], len(loader))]
        assert counted == read_plainly(batches, epoch)
        if close:
            iterators.clear()

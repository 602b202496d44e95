"""Small data sets of all objectives, built once per session, and an empty cache folder."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from corpusmill.objectives.bert import BertOptions
from corpusmill.reading.load.batches import Batches
from tests.tools.knobs import knobs, list_knobs
from tests.tools.small_datasets import OBJECTIVES, SAMPLE, Recipe, write_dataset
from tests.tools.traced_batches import traced_batches


def _fixture_of(name: str) -> Callable[[pytest.TempPathFactory], Path]:
    @pytest.fixture(scope="session", name=name)
    def data_set(tmp_path_factory: pytest.TempPathFactory) -> Path:
        folder = tmp_path_factory.mktemp(name) / "out"
        # Several groups of rows for each shard, as large shards have.
        with knobs(group_rows=200):
            write_dataset(folder, Recipe(OBJECTIVES[name]))
        return folder

    return data_set


# Each has 3 + 1 shards. `bert` has static masks, `bert_dynamic` words to mask at load time
# (`seg_labels`), `bert_packed` rows of up to 256 tokens to mask at load time, with `cu_seqlens`;
# rows of `gpt_stream` are documents, those of `gpt_windows` at most 48 tokens that overlap by 8,
# and those of `gpt_pack` at most 64, with `cu_seqlens`. Rows of `t5` have inputs and targets, those
# of `t5_dynamic` text of which these are made when it is loaded.
bert, bert_dynamic, bert_packed = map(_fixture_of, ("bert", "bert_dynamic", "bert_packed"))
ernie, electra = map(_fixture_of, ("ernie", "electra"))
gpt_stream, gpt_windows, gpt_pack = map(_fixture_of, ("gpt_stream", "gpt_windows", "gpt_pack"))
t5, t5_dynamic, ul2_dynamic = map(_fixture_of, ("t5", "t5_dynamic", "ul2_dynamic"))


@pytest.fixture(scope="module", autouse=True)
def small_thresholds() -> Iterator[None]:
    """Let data sets be read in many pieces, blocks and parts: no sample depends on these."""
    with knobs(small=True):
        yield


@pytest.fixture
def usual_thresholds() -> Iterator[None]:
    """Let data sets be read with the thresholds of users, for a test that counts shards."""
    with knobs(**{name: knob.usual for name, knob in list_knobs().items()}):
        yield


@pytest.fixture
def cache_folder(tmp_path: Path) -> Path:
    """Return a folder for unpacked shards."""
    return tmp_path / "cache"


@pytest.fixture(scope="session")
def batches(tmp_path_factory: pytest.TempPathFactory) -> Batches:
    """Return shuffled batches of 4 that name their samples, some fifteen in an epoch."""
    folder = tmp_path_factory.mktemp("batches")
    half = SAMPLE[: SAMPLE.index(b"\n", len(SAMPLE) // 2) + 1]
    few = Recipe(BertOptions(max_seq_length=64, duplicates=1), text=half)
    write_dataset(folder / "out", few)
    return traced_batches(folder / "out", folder / "cache")

"""Windows of a token stream whose texts get their middles moved when they are read."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from corpusmill.errors import UserError
from corpusmill.objectives.examples.fill_in_the_middle import FIM_TOKENS
from corpusmill.objectives.gpt import GptOptions
from corpusmill.reading.collate.collators import collator_for
from corpusmill.reading.data_set import DataSet
from corpusmill.reading.mixture import JoinedSamples
from corpusmill.reading.token_windows import TOKENS, TokenWindows
from corpusmill.testing import small_text, small_tokenizer
from corpusmill.testing.datasets import SmallBuild, write_dataset

NAMES = [names[0] for names in FIM_TOKENS.values()]


def write(folder: Path, *special: str, **options: Any) -> DataSet:
    write_dataset(
        folder, SmallBuild(GptOptions(**options), small_tokenizer(*special), small_text())
    )
    return DataSet(folder, cache_folder=folder / "cache")


@pytest.fixture(scope="module")
def stream(tmp_path_factory: pytest.TempPathFactory) -> DataSet:
    return write(tmp_path_factory.mktemp("fim") / "stream", *NAMES)


def tokens_of(windows: Any, epoch: int = 0, samples: Any = None) -> np.ndarray:
    numbers = np.arange(len(windows)) if samples is None else np.array(samples)
    rows = windows.take(numbers, np.full(len(numbers), epoch))
    values: np.ndarray = rows.lists(TOKENS).values.reshape(len(numbers), -1)
    return values


def test_middles_are_moved_within_windows(stream: DataSet) -> None:
    plain, moved = TokenWindows(stream, 64), TokenWindows(stream, 64, fim_rate=0.8)
    before, after = tokens_of(plain), tokens_of(moved)
    special = stream.manifest.tokenizer.special
    prefixes = (after == special.find("fim_prefix")).sum()
    texts = (before == special.eos_id).sum() + len(before)
    assert 0.6 * texts < prefixes < 0.9 * texts
    assert not (before == special.find("fim_prefix")).any()
    for old, new in zip(before, after, strict=True):
        kept = np.setdiff1d(new, [special.find(role) for role in FIM_TOKENS])
        assert set(kept) <= set(old)
    assert plain.digest != moved.digest
    assert np.array_equal(tokens_of(TokenWindows(stream, 64, seed=1)), before)


def test_a_window_depends_on_seed_epoch_and_number(stream: DataSet) -> None:
    moved = TokenWindows(stream, 64, fim_rate=0.5, seed=3)
    first = tokens_of(moved)
    for sample in (0, len(moved) - 1):
        assert np.array_equal(tokens_of(moved, samples=[sample])[0], first[sample])
        pair = moved[sample]
        assert np.array_equal([*pair["input_ids"], pair["targets"][-1]], first[sample])
    assert np.array_equal(tokens_of(moved, samples=[5, 2, 5]), first[[5, 2, 5]])
    assert not np.array_equal(tokens_of(moved, epoch=1), first)
    other = TokenWindows(stream, 64, fim_rate=0.5, seed=4)
    assert not np.array_equal(tokens_of(other), first)
    assert other.digest != moved.digest
    joined = JoinedSamples([moved, TokenWindows(stream, 64)])
    assert np.array_equal(tokens_of(joined, samples=range(len(moved))), first)
    batch = collator_for(moved)(moved.take(np.arange(4)))
    assert np.array_equal(batch["labels"], first[:4, :-1])


def test_what_cannot_be_moved_is_refused(stream: DataSet, tmp_path: Path) -> None:
    for rate, spm_share in ((1.5, 0.5), (0.5, -1)):
        with pytest.raises(UserError, match="Give 0 to 1"):
            TokenWindows(stream, 64, fim_rate=rate, fim_spm_share=spm_share)
    with pytest.raises(UserError, match="out of range"):
        TokenWindows(stream, 64, fim_rate=0.5, seed=-1)
    plain = write(tmp_path / "plain")
    with pytest.raises(UserError, match="with a tokenizer that has them"):
        TokenWindows(plain, 64, fim_rate=0.5)
    moved = write(tmp_path / "moved", *NAMES, fim_rate=0.5)
    TokenWindows(moved, 64)
    with pytest.raises(UserError, match="without --fim-rate"):
        TokenWindows(moved, 64, fim_rate=0.5)

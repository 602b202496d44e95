"""Whole jobs that mask whole words, n-grams or nothing."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from tokenizers import Tokenizer

from corpusmill.arrays import ragged
from corpusmill.objectives.bert import Bert, BertOptions
from corpusmill.objectives.masking.tokens import row_keys
from corpusmill.tokenization.words.words import cut_unicode
from corpusmill.verification.check_data_set import verify
from tests.tools import jobs
from tests.tools.data_files import find_file, manifest_of
from tests.tools.jobs import build, read_manifest_json, rows_of, run_here, unmask

WORDS = ("--whole-word-mask",)
NGRAMS = ("--whole-word-mask", "--ngram", "3")
DYNAMIC = ("--mask", "dynamic")

Build = Callable[..., Path]


@pytest.fixture(scope="module", params=["wordpiece", "byte-level"])
def make(
    request: pytest.FixtureRequest, sample: Path, tokenizer_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Build:  # fmt: skip
    """Builds a data set of the sample with flags, once for the same flags."""
    folder = tmp_path_factory.mktemp(request.param)
    path = tokenizer_path
    if request.param == "byte-level":
        path = folder / "tokenizer.json"
        jobs.train(sample, path, *jobs.BYTE_LEVEL)
    built: dict[tuple[str, ...], Path] = {}

    def run(*flags: str) -> Path:
        if flags not in built:
            built[flags] = folder / str(len(built))
            outcome = build([sample], path, built[flags], "--validation-share", "0.2", *flags)
            assert "not remembered" not in outcome.output
        return built[flags]

    return run


def words_of(labels: list[int]) -> Iterator[range]:
    """The places of each word; specials are none."""
    for start, label in enumerate(labels):
        if label == 0:
            end = start + 1
            while labels[end] == 1:
                end += 1
            yield range(start, end)


@pytest.mark.parametrize("flags", [WORDS, NGRAMS], ids=["words", "ngrams"])
def test_words_are_masked_whole(make: Build, flags: tuple[str, ...]) -> None:
    static, dynamic = rows_of(make(*flags)), rows_of(make(*WORDS, *DYNAMIC))
    of_several_tokens = 0
    for row, unmasked in zip(static, dynamic, strict=True):
        assert unmask(row) == unmasked["input_ids"]
        positions = set(row["masked_lm_positions"])
        for word in words_of(unmasked["seg_labels"]):
            assert positions.isdisjoint(word) or positions.issuperset(word)
            of_several_tokens += len(word) > 1 and not positions.isdisjoint(word)
    assert of_several_tokens > len(static)


def test_labels_tell_the_words_of_the_text(make: Build, sample: Path) -> None:
    folder = make(*WORDS, *DYNAMIC)
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    text = sample.read_text()
    words = {text[begin:end] for begin, end in cut_unicode(text)}
    if tokenizer.normalizer is not None:
        words = {tokenizer.normalizer.normalize_str(word).strip() for word in words}
    seen = set()
    for row in rows_of(folder):
        labels = row["seg_labels"]
        for word in words_of(labels):
            # Words at the border of a segment may be cut.
            if labels[word[0] - 1] != -1 and labels[word[-1] + 1] != -1:
                seen.add(tokenizer.decode([row["input_ids"][place] for place in word]).strip())
    # Signs may share a token, as in WikiText's @-@.
    assert {word for word in seen if word.isalnum()} <= words
    assert len(seen & words) > 0.5 * len(words)


def test_loaded_rows_are_masked_anew_in_each_epoch(make: Build) -> None:
    folder = make(*WORDS, *DYNAMIC)
    manifest = manifest_of(folder)
    options = replace(BertOptions(**manifest.objective.options), ngram=3)
    tokenizer = manifest.tokenizer
    masked_lm = Bert(options, tokenizer.special, tokenizer.vocab_size, "int16").masked_lm
    rows = (
        pq.read_table(find_file(folder, "train-00000-of-00003.parquet"))
        .combine_chunks()
        .to_batches()[0]
    )
    stored, offsets = ragged.from_arrow(rows.column("input_ids"))
    seg_labels, _ = ragged.from_arrow(rows.column("seg_labels"))
    epochs = []
    for epoch in range(2):
        input_ids = stored.copy()
        shard = np.zeros(rows.num_rows, np.uint64)
        keys = row_keys(np.uint64(manifest.seed), shard, epoch, np.arange(rows.num_rows))
        positions, labels, ends = masked_lm.mask(input_ids, seg_labels, offsets, keys)
        places = np.repeat(offsets[:-1], np.diff(ends)) + positions
        assert (stored[places] == labels).all()
        assert (input_ids != stored).sum() > 0.8 * len(places)
        chosen = np.zeros(len(stored), np.bool_)
        chosen[places] = True
        later = np.flatnonzero(seg_labels == 1)
        assert (chosen[later] == chosen[later - 1]).all()
        assert 0.13 < len(places) / (seg_labels >= 0).sum() < 0.16
        epochs.append(places)
    assert len(np.intersect1d(*epochs)) < 0.3 * len(epochs[0])


@pytest.mark.parametrize("flags", [NGRAMS, DYNAMIC, WORDS + DYNAMIC], ids=" ".join)
def test_what_is_built_can_be_verified_and_inspected(make: Build, flags: tuple[str, ...]) -> None:
    folder = make(*flags)
    assert not verify(folder)
    shown = run_here("inspect", folder, "--examples", "3")
    static = flags == NGRAMS
    legend = "[MASK->masked]"
    assert ("[MASK->" in shown.output.replace(legend, "")) == static
    manifest = read_manifest_json(folder)
    distributions = manifest["splits"]["train"]["distributions"]
    assert ("predictions" in distributions) == static
    # A reader masks by what the manifest says.
    options = manifest["objective"]["options"]
    assert (options["masked_lm_prob"], options["max_predictions_per_seq"]) == (0.15, 20)
    assert (options["whole_word_mask"], options["ngram"]) == (
        "--whole-word-mask" in flags,
        3 if flags == NGRAMS else 1,
    )


def test_padded_labels_are_verified(make: Build) -> None:
    folder = make(*WORDS, *DYNAMIC, "--padding", "max_length")
    assert not verify(folder)
    for row, plain in zip(rows_of(folder), rows_of(make(*WORDS, *DYNAMIC)), strict=True):
        missing = 64 - len(plain["seg_labels"])
        assert row["seg_labels"] == plain["seg_labels"] + [-1] * missing

"""What is counted of a corpus, against plain Python."""

import statistics
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer

from corpusmill.console.plots import bin_shares, cut_bins
from corpusmill.corpus.batches import TEXT_SCHEMA
from corpusmill.dataset.manifest_entries import as_mapping
from corpusmill.inspection.corpus_measures import (
    DISTRIBUTIONS,
    Measures,
    assign_bins,
    bin_edge,
    classify_tokens,
    count_values,
    measure_text,
    measure_tokens,
    quantile,
    read_bins,
)
from corpusmill.inspection.corpus_numbers import describe_bins
from corpusmill.inspection.figures import Distribution
from corpusmill.tokenization.tokenizer_file import TokenizerFile
from tests.tools.builders import SPECIAL, batch_of, corpora, from_rows
from tests.tools.corpus_files import measure_corpus, read_documents
from tests.tools.tokenizer_samples import byte_level, wordpiece

# White space of all widths, its neighbours, and what surrounds it.
texts = st.text(
    st.sampled_from("ab\t\x1c\x1f \x85\xa0\u1680\u2000\u200a\u200b\u2028\u3000\u3001é漢😀\x84")
)


def text_of(documents: list[list[str]]) -> pa.RecordBatch:
    return from_rows(enumerate(documents), TEXT_SCHEMA)


@given(st.lists(st.lists(texts, max_size=4), max_size=4))
def test_text_is_counted_as_python_counts_it(documents: list[list[str]]) -> None:
    sentences = [sentence for document in documents for sentence in document]
    counts = measure_text(text_of(documents), batch_of({})).counts
    of_text = {name: counts[name] for name in ("bytes", "characters", "words")}
    assert of_text == {
        "bytes": sum(len(sentence.encode()) for sentence in sentences),
        "characters": sum(map(len, sentences)),
        "words": sum(len(sentence.split()) for sentence in sentences),
    }
    for name in ("bytes", "words"):
        of_scripts = (part for key, part in counts.items() if key.endswith(f".{name}"))
        assert sum(of_scripts) == of_text[name]


@given(st.lists(st.lists(texts, max_size=3), min_size=1, max_size=5), st.integers(0, 5))
def test_measures_of_parts_add_up_to_the_whole(documents: list[list[str]], cut: int) -> None:
    batch = text_of(documents)
    tokenized = batch_of({number: [[5] * number] for number in range(1, len(documents), 2)})
    parts = measure_text(batch.slice(0, cut), tokenized)
    parts.add(measure_text(batch.slice(cut), tokenized))
    assert parts == measure_text(batch, tokenized)


def test_tokens_are_counted_by_the_script_in_the_middle_of_a_document() -> None:
    documents = {
        "Latin": ["и" * 60, "the sea " * 15, "и" * 60],
        "Cyrillic": ["мир и свет the"], "Han": ["（海）a"],
        "no letters": ["12 !"], "Hiragana": ["海の" + "は" * 9],
    }  # fmt: skip
    # Documents 1 and 3 have no tokens, and the others one each and their number.
    tokenized = batch_of({0: [[5]], 2: [[5], [6, 7]], 4: [[5] * 5]})
    counts = measure_text(text_of([*documents.values()]), tokenized).counts
    tokens = {name: counts[f"script.{name}.tokens"] for name in documents}
    assert tokens == {"Latin": 1, "Cyrillic": 0, "Han": 3, "no letters": 0, "Hiragana": 5}
    assert counts["script.Latin.words"] == 32
    assert counts["script.Han.bytes"] == len("（海）a".encode())
    assert {name.split(".")[1] for name in counts if "." in name} == {*documents}
    shapes = {"Latin": "ＡＢ𝐂ª", "Katakana": "ｱｲｳ", "Han": "\u2f00\uf900"}  # other forms
    for name, text in shapes.items():
        assert measure_text(text_of([[text]]), batch_of({})).counts[f"script.{name}.words"] == 1
    sources = ["web", "wiki", "web", "wiki", "web"]
    by_source = measure_text(text_of([*documents.values()]), tokenized, sources).counts
    assert [by_source[f"source.{name}.tokens"] for name in ("web", "wiki")] == [9, 0]
    assert by_source["source.web.words"] + by_source["source.wiki.words"] == counts["words"]


def test_tokens_are_told_by_what_they_spell() -> None:
    kinds = dict[str, int]()
    for tokenizer_json in (byte_level(), wordpiece(lowercase=True)):
        tokenizer = Tokenizer.from_str(tokenizer_json)
        vocabulary = tokenizer.get_vocab()
        found = classify_tokens(tokenizer_json, len(vocabulary))
        kinds |= {name: int(found[number]) for name, number in vocabulary.items()}
    expected = {"a": 1, "\u0120t": 1, "laz": 0, "\u0120": 0, "aÃ": 2, "##e": 0, "[UNK]": 0}
    assert {name: kinds[name] for name in expected} == expected
    batch = batch_of({0: [[3, 4], [3, 5, 5]]})
    kinds_of_ids = np.array([0, 0, 0, 1, 2, 0], np.uint8)
    counts = measure_tokens(batch, None, kinds=kinds_of_ids).counts
    assert (counts["character_tokens"], counts["part_tokens"]) == (2, 1)


@given(corpora, st.integers(0, 6))
def test_lengths_are_counted_as_python_counts_them(
    corpus: dict[int, list[list[int]]], cut: int
) -> None:
    batch = batch_of(corpus)
    measures = measure_tokens(batch.slice(0, cut), SPECIAL.unk_id)
    measures.add(measure_tokens(batch.slice(cut), SPECIAL.unk_id))
    documents = list(corpus.values())
    lengths = {
        "tokens_per_document": [sum(map(len, document)) for document in documents],
        "sentences_per_document": [len(document) for document in documents],
        "tokens_per_sentence": [len(sentence) for document in documents for sentence in document],
    }
    assert measures.counts["documents"] == len(documents)
    assert measures.counts["sentences"] == len(lengths["tokens_per_sentence"])
    assert measures.counts["tokens"] == sum(lengths["tokens_per_document"])
    for name in DISTRIBUTIONS:
        bins = read_bins(name, measures.counts)
        values = sorted(lengths[name])
        assert [bucket.first for bucket in bins for _ in range(bucket.number)] == values
        described = describe_bins(bins, measures.largest[name])
        assert described["max"] == values[-1]
        assert described["mean"] == pytest.approx(statistics.mean(values))
        assert described["median"] == values[(len(values) - 1) // 2]
        assert quantile(bins, 1) == values[-1]


def test_tokens_are_told_by_their_kind() -> None:
    batch = batch_of({7: [[1, 1, 20, 4], [3]], 8: [[21]]})
    counts = measure_tokens(batch, SPECIAL.unk_id).counts
    assert (counts["unknown_tokens"], counts["tokens"]) == (2, 6)
    assert measure_tokens(batch, None).counts["unknown_tokens"] == 0


@given(st.lists(st.integers(0, 2**40), max_size=50))
def test_a_bin_holds_its_values_and_is_narrow(values: list[int]) -> None:
    for value, number in zip(values, assign_bins(np.array(values, np.int64)).tolist(), strict=True):
        first, end = bin_edge(number), bin_edge(number + 1)
        assert first <= value < end
        assert end - first <= max(1, value / 64)


@given(st.lists(st.integers(1, 10**7), min_size=1, max_size=300))
def test_quantiles_are_near_those_of_the_values(values: list[int]) -> None:
    measures = count_values("x", np.array(values))
    bins = read_bins("x", measures.counts)
    assert describe_bins(bins, 0)["count"] == len(values)
    assert measures.largest == {"x": max(values)}
    for share in (0.5, 0.9, 0.99):
        exact = sorted(values)[int(np.ceil(share * len(values))) - 1]
        assert quantile(bins, share) == pytest.approx(exact, rel=1 / 64, abs=0.5)


def test_nothing_has_no_lengths() -> None:
    assert measure_tokens(batch_of({}), None).largest == {}
    assert read_bins("x", {}) == []
    numbers = dict.fromkeys(("count", "mean", "median", "p90", "p99", "max"), 0)
    assert describe_bins([], 0) == {**numbers, "bins": []}


def test_a_corpus_is_measured_from_python(sample: Path, tokenizer: TokenizerFile) -> None:
    measures = measure_corpus(read_documents(sample), tokenizer)
    plain = Tokenizer.from_str(tokenizer.json)
    lines = [line.strip() for line in sample.read_text().splitlines()]
    sentences = [line for line in lines if line and not line.startswith("=")]
    ids = [plain.encode(line, add_special_tokens=False).ids for line in sentences]
    assert measures.counts["words"] == sum(len(line.split()) for line in sentences)
    assert measures.counts["tokens"] == sum(map(len, ids))
    assert measures.largest["tokens_per_sentence"] == max(map(len, ids))
    assert isinstance(measures, Measures)


VALUES = st.lists(st.integers(0, 700) | st.integers(0, 2**40), min_size=1)


def count(values: list[int]) -> Distribution:
    places, numbers = np.unique(values, return_counts=True)
    return Distribution("length", dict(zip(places.tolist(), numbers.tolist(), strict=True)))


@given(VALUES, VALUES)
def test_bins_are_equally_wide_and_hold_every_value_once(
    values: list[int], others: list[int]
) -> None:
    distributions = [count(values), count(others)]
    bins = cut_bins(distributions)
    assert len(bins) <= 66
    *equal, last = bins
    assert len({len(part) for part in equal}) <= 1
    assert len(bins[0]) & (len(bins[0]) - 1) == 0
    assert [part.start for part in bins] == [0, *(part.stop for part in equal)]
    assert max(*values, *others) in last
    for distribution, own in zip(distributions, (values, others), strict=True):
        expected = [sum(value in part for value in own) / len(own) for part in bins]
        assert np.allclose(bin_shares(distribution, bins), expected)


@given(VALUES)
def test_bins_of_a_measured_corpus_are_parts_of_them(values: list[int]) -> None:
    """So that no bin has more than its values for the places of other bins."""
    measured = assign_bins(np.array(values))
    first = [bin_edge(part) for part in measured.tolist()]
    bins = cut_bins([count(first)])
    shares = bin_shares(count(first), bins)
    if len(bins) == 1 or len(bins[-1]) == len(bins[0]):
        assert np.allclose(shares, bin_shares(count(values), bins))
    else:
        assert np.allclose(shares[:-1], bin_shares(count(values), bins[:-1]))


@pytest.mark.parametrize(
    ("largest", "number", "width"),
    [(20, 21, 1), (64, 65, 1), (128, 65, 2), (512, 65, 8), (1000, 63, 16), (1024, 65, 16)],
)
def test_even_values_give_even_bars(largest: int, number: int, width: int) -> None:
    """A comb of high and low bars comes from bins that hold unequal numbers of whole numbers."""
    distribution = Distribution("length", as_mapping(np.ones(largest + 1, np.int64)))
    bins = cut_bins([distribution])
    assert (len(bins), len(bins[0])) == (number, width)
    shares = bin_shares(distribution, bins)
    assert np.allclose(shares[:-1], shares[0])


def test_a_few_large_values_have_a_bin_of_their_own() -> None:
    bins = cut_bins([Distribution("length", {1: 50, 127: 49, 1000: 1})])
    assert (bins[0], bins[-2], bins[-1]) == (range(2), range(126, 128), range(128, 1001))

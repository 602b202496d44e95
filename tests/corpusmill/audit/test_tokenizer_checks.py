"""Other ids are explained by the way in which a library loaded the tokenizer."""

import json
from pathlib import Path

from tokenizers import (
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    trainers,
)

from corpusmill.audit.audit import SAMPLED_IDS, audit_files
from corpusmill.audit.conventions import Given
from corpusmill.audit.findings import find
from corpusmill.audit.formats.megatron import FORMAT as MEGATRON
from corpusmill.audit.formats.raw import FORMAT
from corpusmill.audit.token_files import TokenFolder
from corpusmill.audit.tokenizer_checks import _CHANGES, TokenizerChecks
from corpusmill.location import locate
from corpusmill.tokenization.sources.read import read_tokenizer
from corpusmill.tokenization.tokenizer_file import TokenizerFile
from tests.tools.token_files import list_texts, make_tokenizer, write_megatron, write_nanogpt

END = "<|end_of_text|>"


def train(
    pre_tokenizer: pre_tokenizers.PreTokenizer,
    decoder: decoders.Decoder,
    normalizer: normalizers.Normalizer | None = None,
) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer, tokenizer.decoder = pre_tokenizer, decoder
    if normalizer:
        tokenizer.normalizer = normalizer
    trainer = trainers.BpeTrainer(
        vocab_size=1500,
        special_tokens=[END],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(list_texts(), trainer)
    return tokenizer


def make_tokenizers() -> dict[str, Tokenizer]:
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False)
    spaced = pre_tokenizers.ByteLevel(add_prefix_space=True)
    metaspace = pre_tokenizers.Metaspace(prepend_scheme="first")
    always = pre_tokenizers.Metaspace(prepend_scheme="always")
    return {
        "llama-3": make_tokenizer(),
        "gpt-2": train(byte_level, decoders.ByteLevel()),
        "spaced": train(spaced, decoders.ByteLevel()),
        "metaspace": train(metaspace, decoders.Metaspace(prepend_scheme="first")),
        "always": train(always, decoders.Metaspace(prepend_scheme="always")),
    }


def read(tokenizer: Tokenizer) -> TokenizerFile:
    return read_tokenizer("tokenizer.json", lambda _: tokenizer.to_str().encode())


def explain(folder: Path, tokenizer: Tokenizer, other: Tokenizer) -> list[str]:
    """Audit ids of one tokenizer with another one, and return what is found."""
    folder.mkdir()
    texts = [
        encoding.ids
        for encoding in other.encode_batch(list(list_texts()[:120]), add_special_tokens=False)
    ]
    end = tokenizer.get_vocab()[END]
    write_nanogpt(folder, [[*ids, end] for ids in texts], {})
    place = locate(str(folder))
    files = FORMAT.open(TokenFolder(place, place.list()), "train.bin")
    known = read(tokenizer)
    measured = audit_files(
        files, Given(end=end, special=known.special, vocab_size=known.vocab_size)
    )
    found = find(measured, TokenizerChecks(known, measured))
    return [finding.what for finding in found if finding.name == "other tokens"]


def test_the_way_that_explains_a_file_is_named(tmp_path: Path) -> None:
    tokenizers, tried, wrong = make_tokenizers(), set[str](), []
    for name, tokenizer in tokenizers.items():
        if whats := explain(tmp_path / name, tokenizer, tokenizer):
            wrong.append((name, "as it is", whats))
        for way, change in _CHANGES.items():
            described = json.loads(tokenizer.to_str())
            if not change(described):
                continue
            whats = explain(
                tmp_path / f"{name}-{way}", tokenizer, Tokenizer.from_str(json.dumps(described))
            )
            tried.update([way] * len(whats))
            if whats and "are what it gives with" not in whats[0]:
                wrong.append((name, way, whats))
    assert not wrong
    assert tried >= {
        "byte-level",
        "no-prefix-space",
        "no-dummy-prefix",
        "gpt2",
        "qwen2",
        "o200k",
    }


def test_ids_of_another_tokenizer_are_not_explained(tmp_path: Path) -> None:
    tokenizers = make_tokenizers()
    [what] = explain(tmp_path / "other", tokenizers["llama-3"], tokenizers["metaspace"])
    assert float(what.split()[0]) > 90
    assert "are what it gives" not in what


def test_long_texts_without_spaces_are_not_cut_within_letters(tmp_path: Path) -> None:
    tokenizer, letters = make_tokenizer(), "กขคงจฉชซญฐดตถทธนบปผ"
    texts = ["a" + "".join(letters[(n * n + i * 7) % 19] for i in range(900)) for n in range(60)]
    end = tokenizer.get_vocab()[END]
    rows = [
        [*encoding.ids, end] for encoding in tokenizer.encode_batch(texts, add_special_tokens=False)
    ]
    assert min(map(len, rows)) > SAMPLED_IDS
    write_megatron(tmp_path, rows)
    folder, known = locate(str(tmp_path)), read(tokenizer)
    files = MEGATRON.open(TokenFolder(folder, folder.list()), "part.bin")
    given = Given(end=end, special=known.special, vocab_size=known.vocab_size)
    measured = audit_files(files, given)
    found = find(measured, TokenizerChecks(known, measured))
    assert [finding.what for finding in found if finding.name == "other tokens"] == []

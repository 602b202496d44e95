"""The proof of a tokenizer on a piece of the corpus, before it is used."""

import io
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import BinaryIO, NamedTuple

import numpy as np
import orjson
from rich.console import Console
from tokenizers import Tokenizer

from corpusmill.arrays.ragged import to_numpy
from corpusmill.corpus.batches import DocumentBatch, FileRange
from corpusmill.corpus.decompression import DamagedStreamError, open_decompressed
from corpusmill.corpus.document_options import CorpusReading, DocumentOptions
from corpusmill.corpus.input_formats import read_corpus
from corpusmill.errors import UserError, option
from corpusmill.tokenization.compiled.byte_level_pieces import DEEPSEEK_STEPS, RULES
from corpusmill.tokenization.sentence_tokenizer import SentenceTokenizer, load_sentence_tokenizer
from corpusmill.tokenization.sources.proof import LINED_TEXTS, find_difference, hard_texts
from corpusmill.tokenization.tokenizer_file import (
    Encode,
    TokenizerFile,
    list_patterns,
    show_special_token,
)
from corpusmill.tokenization.words.words import WordRule
from pipeline.recipe.inputs import InputFile
from transforms.corpus.listed import open_listed

# The size of the piece: 1/64 of the corpus, within bounds.
_SHARE, _FEWEST_BYTES, _BYTES = 64, 32 * 2**10, 256 * 2**10
_FILES = 8
# The middle of a plain file is read as well if the file has at least this size.
_LARGE = 4 * 2**20
# Formats that can be cut at the ends of lines.
_OF_LINES = {"text", "json-lines", "lines"}
# It is cut at each of its places.
_CUT_TEXT = "A word, cut3 in two."
# A regular expression may take time that doubles with each character of a text. Slow ones tokenize
# the probe in a few seconds.
_SECONDS = 120
_ENCODE = """
import json, sys
from tokenizers import Tokenizer
tokenizer, texts = json.load(sys.stdin)
Tokenizer.from_str(tokenizer).encode_batch_fast(texts)
"""


class Probe(NamedTuple):
    """A piece of a corpus.

    Attributes:
        texts: its sentences.
        document_bytes: the mean size of its documents in the input; 0 if there are none.
    """

    texts: list[str]
    document_bytes: float


def read_probe(files: Sequence[InputFile], reading: CorpusReading) -> Probe:
    """Read at most about 256 KiB of sentences of the corpus.

    If documents are not cut into lines, hard texts of many lines come first.

    Args:
        files: the corpus, from which files at even distances are read.
        reading: the rules of documents, with a format. Bad records are left out; the job counts
            them.
    """
    full = [(file, reading.of_file(number)) for number, file in enumerate(files) if file.bytes]
    step = max(1, len(full) / _FILES)
    chosen = [full[int(place * step)] for place in range(min(_FILES, len(full)))]
    places = [(file, 0, options) for file, options in chosen]
    places += [
        (file, file.bytes // 2, options)
        for file, options in chosen
        if options.input_format in _OF_LINES and file.content.is_in_ranges and file.bytes >= _LARGE
    ]
    share = sum(file.bytes for file, _ in full) // _SHARE
    budget = min(_BYTES, max(_FEWEST_BYTES, share)) // len(places)
    lined = LINED_TEXTS if any(options.keeps_text for _, options in chosen) else ()
    texts, documents, size = [*lined], 0, 0
    for file, start, options in places:
        left = budget
        # A very long document is cut, and what remains is still text of the corpus.
        most = min(options.max_document_bytes, budget if options.keeps_text else _BYTES)
        for batch in _read_batches(file, start, replace(options, max_document_bytes=most)):
            column = batch.documents.column("sentences")
            # As `column.flatten()`, which imports Arrow's functions for a twentieth of a second.
            bounds = to_numpy(column.offsets)
            whole = column.values[bounds[0] : bounds[-1]].to_pylist()
            sentences = [sentence[:budget] for sentence in whole]
            lengths = [len(sentence.encode()) for sentence in sentences]
            documents, size = documents + batch.documents.num_rows, size + batch.counts.bytes
            enough = int(np.searchsorted(np.cumsum(lengths), left)) + 1
            texts += sentences[:enough]
            left -= sum(lengths)
            if left <= 0:
                break
    return Probe(texts, size / documents if documents else 0.0)


def _read_batches(file: InputFile, start: int, options: DocumentOptions) -> Iterator[DocumentBatch]:
    with open_listed(file.planned) as raw, suppress(DamagedStreamError):
        stream = open_decompressed(raw, file.path)
        if start:
            stream.seek(start)
        if options.input_format in _OF_LINES:
            stream = io.BytesIO(_read_lines(stream, start > 0, options.max_line_bytes))
        yield from read_corpus(stream, FileRange(file.path, 0, options))


def _read_lines(stream: BinaryIO, from_within: bool, longest: int) -> bytes:
    """Read whole lines, without a first or a last one that is incomplete.

    The first line of a file may be a whole book.
    """
    content, most = bytearray(), _BYTES if from_within else longest
    with suppress(DamagedStreamError):
        while len(content) < most and (read := stream.read(_BYTES)):
            content += read
            most = _BYTES if b"\n" in read else most
    first = content.find(b"\n") + 1 if from_within else 0
    last = content.rfind(b"\n") + 1 if len(content) >= _BYTES else len(content)
    return bytes(content[first:last])


def prove_tokenizer(
    tokenizer: TokenizerFile,
    texts: list[str],
    console: Console,
    words: WordRule | None = None,
) -> bool:
    """Compare a tokenizer's ids with those of its original library, with and without remembering.

    A rule of words is tried on all texts, whether or not the ids of words are remembered.

    Args:
        tokenizer: the tokenizer.
        texts: a probe of the corpus; hard texts are added.
        console: where a memo of words that cannot be used is announced.
        words: the rule by which ids are marked before they are compared; None if they are not.

    Returns:
        Whether the ids are the same with a memo of words as without.

    Raises:
        UserError: the tokenizer does not come to an end, the original library gives other ids, or
            the rule finds no words.
    """
    _check_patterns(tokenizer, texts)
    load = partial(_sentence_tokenizer, tokenizer, words)
    sentences = load(memoize=True)
    if not sentences.memoizes and tokenizer.reference is None and words is None:
        return True
    plain = sentences.library
    special = {plain.id_to_token(token_id) for token_id in tokenizer.special.all_ids}
    texts = hard_texts(show_special_token(name) for name in special if name is not None) + texts

    def encode_plainly(texts: list[str]) -> list[list[int]]:
        encodings = plain.encode_batch_fast(texts, add_special_tokens=False)
        return [encoding.ids for encoding in encodings]

    if tokenizer.reference is not None:
        difference = find_difference(encode_plainly, tokenizer.reference, texts)
        if difference:
            raise UserError(
                option("tokenizer", tokenizer.name),
                "converted to a tokenizer.json, it does not give the ids of its own library: "
                f"{difference}",
                "Give a tokenizer.json that was made for it",
            )
    encode: Encode = encode_plainly
    if words is not None:
        encode = _encode_with(load(memoize=False))
        encode(texts)  # raises if the rule finds no words
    if not sentences.memoizes:
        return True
    difference = find_difference(_encode_with(sentences), encode, texts)
    if difference:
        console.print(f"the ids of words are not remembered: {difference}")
    return difference is None


def prove_cuts(tokenizer: TokenizerFile) -> None:
    """Refuse a tokenizer with which the pieces of a text that is cut spell another text.

    Many begin every text with a space or a new word, which is not there within a text.

    Raises:
        UserError: it is one of them.
    """
    plain = Tokenizer.from_str(tokenizer.json)

    def spell(*pieces: str) -> str:
        encodings = plain.encode_batch_fast(pieces, add_special_tokens=False)
        ids = [token for encoding in encodings for token in encoding.ids]
        text: str = plain.decode(ids, skip_special_tokens=False)
        return text

    for place in range(1, len(_CUT_TEXT)):
        pieces = (_CUT_TEXT[:place], _CUT_TEXT[place:])
        if spell(*pieces) != spell(_CUT_TEXT):
            raise UserError(
                option("tokenizer", tokenizer.name),
                f"texts are cut before they are tokenized, and {pieces[0]!r} and {pieces[1]!r} "
                f"come back from it as {spell(*pieces)!r}",
                "Give a byte-level tokenizer that adds no space to a text, or have the objective "
                "cut at tokens",
            )


def _check_patterns(tokenizer: TokenizerFile, texts: list[str]) -> None:
    """Try regular expressions that are not known in another process, as nothing else ends them."""
    unknown = list_patterns(orjson.loads(tokenizer.json)) - {*RULES, *DEEPSEEK_STEPS}
    if not unknown:
        return
    request = orjson.dumps([tokenizer.json, [*hard_texts(()), *texts]])
    try:
        subprocess.run(  # noqa: S603  this very interpreter
            [sys.executable, "-c", _ENCODE], input=request, timeout=_SECONDS, capture_output=True,
            check=True,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        cause = f"it did not tokenize {len(texts):,} texts of the corpus in {_SECONDS} seconds"
    except subprocess.CalledProcessError as error:
        lines = error.stderr.decode(errors="replace").strip().splitlines() or [str(error)]
        cause = f"it cannot tokenize texts of the corpus ({lines[-1]})"
    else:
        return
    raise UserError(
        option("tokenizer", tokenizer.name),
        f"{cause}; its regular expressions are {', '.join(map(repr, sorted(unknown)))}",
        "Give another tokenizer, or one without nested repetitions such as (a+)+",
    )


def _sentence_tokenizer(
    tokenizer: TokenizerFile,
    words: WordRule | None,
    memoize: bool,
) -> SentenceTokenizer:
    name = words.name if words else ""
    # The same arguments as the job's, so that a worker in this process does not load it again.
    return load_sentence_tokenizer(
        tokenizer.json,
        tokenizer.choose_dtype(name),
        memoize,
        tokenizer.options.special_tokens_in_text,
        name,
    )


def _encode_with(sentences: SentenceTokenizer) -> Encode:
    def encode(texts: list[str]) -> list[list[int]]:
        encoded = [text.encode() for text in texts]
        offsets = np.cumsum([0, *map(len, encoded)], dtype=np.int64)
        ids, bounds = sentences.encode(np.frombuffer(b"".join(encoded), np.uint8), offsets)
        listed = ids.tolist()
        return [listed[start:end] for start, end in pairwise(bounds.tolist())]

    return encode

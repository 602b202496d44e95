"""Corpora that break more than ordinary ones: many files, one length, endless documents.

All consist of the text of `benchmarks.synthetic.corpus`, or of a few frequent words.
"""

import json
from collections.abc import Iterator
from itertools import cycle, islice
from pathlib import Path

import numpy as np

# Each is one token of any tokenizer that was trained on English text.
_WORDS = np.array(["the", "of", "and", "in", "to", "a"])
_BLOCK_DOCUMENTS = 10_000
_FILES_A_FOLDER = 1000
# The letter has two bytes in UTF-8; a name can have 255 bytes.
_LETTER, _MOST_NAME_BYTES = "\u00e4", 255


def write_many_files(folder: Path, text: Path, files: int) -> None:
    """Write the lines of a text into files of about one size, a thousand per folder."""
    content = text.read_bytes()
    begin = 0
    for number in range(files):
        aim = len(content) * (number + 1) // files
        end = content.find(b"\n", max(aim - 1, begin)) + 1 or len(content)
        if number % _FILES_A_FOLDER == 0:
            within = folder / f"{number // _FILES_A_FOLDER:03d}"
            within.mkdir(parents=True)
        (within / f"{number:07d}.txt").write_bytes(content[begin:end])
        begin = end


def write_one_length(path: Path, documents: int, words: int) -> None:
    """Write documents of one line with the same number of words, each of which is one token."""
    rng = np.random.default_rng(0)
    with path.open("w") as stream:
        for first in range(0, documents, _BLOCK_DOCUMENTS):
            drawn = _WORDS[
                rng.integers(0, len(_WORDS), (min(_BLOCK_DOCUMENTS, documents - first), words))
            ]
            stream.writelines(" ".join(line) + "\n\n" for line in drawn.tolist())


def write_lines_of_one_size(path: Path, text: Path, lines: int, line_bytes: int) -> None:
    """Write lines of exactly `line_bytes` bytes, with their newlines, for the format `lines`."""
    words = text.read_bytes().decode("ascii", "ignore").split()
    numbers = iter(range(lines))
    with path.open("w") as stream:
        source = cycle(words)
        for _ in numbers:
            line = ""
            while len(line) < line_bytes:
                line += next(source) + " "
            stream.write(line[: line_bytes - 1].replace(" \n", "x\n") + "\n")


def _sentences(text: Path) -> Iterator[bytes]:
    """Yield the lines of a text that are neither blank nor titles."""
    with text.open("rb") as stream:
        for line in stream:
            if line.strip() and not line.strip().startswith(b"="):
                yield line


def write_endless_document(path: Path, text: Path, num_bytes: int, newline: bytes) -> None:
    """Write one document of about `num_bytes` bytes, which only the job itself can cut.

    Args:
        path: of the document.
        text: its sentences are repeated.
        num_bytes: size of the document.
        newline: between sentences; with a space the document is one line.
    """
    once = newline.join(line.strip() for line in islice(_sentences(text), 20_000)) + newline
    with path.open("wb") as stream:
        for _ in range(max(1, num_bytes // len(once))):
            stream.write(once)
        stream.write(b"\n")


def write_empty_records(path: Path, text: Path, empty: int, full: int) -> None:
    """Write JSON lines, most of which have an empty text."""
    texts = list(islice((line.decode().strip() for line in _sentences(text)), full))
    with path.open("w") as stream:
        for number in range(empty):
            stream.write('{"text": ""}\n')
            if number % max(1, empty // full) == 0 and texts:
                stream.write(json.dumps({"text": texts.pop()}) + "\n")


def write_long_names(folder: Path, text: Path, files: int, characters: int = 200) -> None:
    """Write files whose names are almost as long as possible, into a folder with such a name."""
    wide = _MOST_NAME_BYTES - characters
    within = folder / (_LETTER * wide + "d" * (characters - wide))
    write_many_files(within, text, files)
    for path in list(within.rglob("*.txt")):
        stem = path.name.removesuffix(".txt")
        narrow = characters - wide - len(path.name)
        path.rename(path.with_name(stem + "n" * narrow + _LETTER * wide + ".txt"))


def write_deep_folders(folder: Path, text: Path, files: int, depth: int) -> None:
    """Write files, each of which is nested in `depth` folders."""
    write_many_files(folder, text, files)
    for path in list(folder.rglob("*.txt")):
        within = path.parent.joinpath(*[f"level-{level}" for level in range(depth)], path.stem)
        within.mkdir(parents=True)
        path.rename(within / path.name)

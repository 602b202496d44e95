"""English text for the sample of a plan that has no input.

It is Python's own documentation, which every installation of Python has, without its code. That is
less text than a sample needs, so that further copies have the same words in another order: a copy
of the text itself would compress far better than a corpus does.
"""

import random
import re
from collections.abc import Iterator
from pathlib import Path
from pydoc_data.topics import topics

_HEADING = re.compile(r"[*=\-^~]{3,}")


def write_sample_text(path: Path, num_bytes: int, titled: bool = False) -> int:
    """Write at least so many bytes of text: a paragraph a line, an empty line between documents.

    The same version of Python writes the same text.

    Args:
        path: the file.
        num_bytes: how many bytes are wanted.
        titled: whether each document begins with a title as in WikiText.

    Returns:
        The size of the file.
    """
    documents = [(name, list(_paragraphs(text))) for name, text in sorted(topics.items())]
    words = [word for _, paragraphs in documents for line in paragraphs for word in line]
    generator, size = random.Random(0), 0  # noqa: S311  no secret
    with path.open("w", encoding="utf-8") as file:
        while size < num_bytes:
            rest = iter(words)
            for name, paragraphs in documents:
                lines = [f" = {name} = ", ""] if titled else []
                lines += [" ".join(next(rest) for _ in line) for line in paragraphs]
                size += file.write("\n".join([*lines, "", ""]))
            generator.shuffle(words)
    return path.stat().st_size


def _paragraphs(text: str) -> Iterator[list[str]]:
    """Yield the words of each paragraph that is neither a heading nor code, which is indented."""
    for paragraph in text.split("\n\n"):
        if paragraph.strip() and not paragraph.startswith(" ") and not _HEADING.search(paragraph):
            yield paragraph.split()

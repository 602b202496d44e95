r"""Which records are one document, in which order, and what is put before each of them.

A record stays a document of its own until rows are built: filters, provenance and filling in the
middle know it by its id (`corpusmill.layout.groups`). What is put before it is a template: a text
with the names of fields in braces, and with \n and \t for what they mean in Python.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

_FIELD = re.compile(r"\{([^{}]+)\}")


def list_fields(template: str) -> list[str]:
    """Return the names of the fields in a template."""
    names: list[str] = _FIELD.findall(template)
    return names


def has_open_brace(template: str) -> bool:
    """Return whether a template has a brace that is not that of a field."""
    return bool(re.search("[{}]", _FIELD.sub("", template)))


def fill(template: str, number: int, values: Mapping[str, Sequence[str | None]]) -> list[str]:
    """Return a template with the values of each record; what a record lacks is empty.

    Args:
        template: a template.
        number: of the records.
        values: those of all records, by the names of fields.
    """
    text = template.replace(r"\n", "\n").replace(r"\t", "\t")
    pieces = [[piece] * number for piece in _FIELD.split(text)]
    pieces[1::2] = [[value or "" for value in values[name]] for name in list_fields(text)]
    return ["".join(piece) for piece in zip(*pieces, strict=True)]


@dataclass(frozen=True)
class Grouping:
    """How records are joined to documents; it travels to the workers.

    Attributes:
        by: the field whose values they share.
        order: the field by which they are ordered; None for the order of the input.
        most_tokens: the most of a document of several records.
        heads: the templates of what is put before a record, and before the first one of a document.
    """

    by: str
    order: str | None
    most_tokens: int
    heads: tuple[str, str]

    def divide(self, added: Iterable[str]) -> list[list[str]]:
        """Return each of `heads` as added tokens and the templates between them.

        Args:
            added: those of the tokenizer, special or not, the longest first.
        """
        # A token may also be the name of a field, which stands in braces.
        names = re.compile(rf"({'|'.join(map(re.escape, added)) or '(?!)'})(?![^{{}}]*}})")
        return [[part for part in names.split(head) if part] for head in self.heads]

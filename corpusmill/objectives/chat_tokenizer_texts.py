"""The texts of conversations with which a tokenizer is trained, before there is a template."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from corpusmill.objectives.chat import ChatOptions, read_messages

# What a message says, by the names that people give it. Others, such as weights, are not text.
_SAID = ("reasoning_content", "reasoning", "thinking", "content", "tool_calls", "function_call")


@dataclass(frozen=True)
class ConversationTexts:
    """Writes what is said one below the other (`corpusmill.corpus.document_options.TextMaker`).

    Attributes:
        field: of the messages.
    """

    field: str = "messages"

    @property
    def fields(self) -> tuple[str, ...]:
        """The fields of which a conversation is made."""
        return (self.field, "conversations", "instruction", "input", "output", "system", "tools")

    def knows(self, names: Sequence[str]) -> bool:
        """Whether records with these fields look like conversations."""
        return ChatOptions.reads_fields(names)

    def __call__(self, record: Mapping[str, Any]) -> str:
        """Return what is said in a conversation.

        Raises:
            UnreadableError: the record is none.
        """
        messages = read_messages(record, self.field)
        values = [record.get("tools"), *(each.get(name) for each in messages for name in _SAID)]
        return "\n".join(text for value in values for text in _texts_of(value))


def _texts_of(value: Any) -> Iterator[str]:
    """Yield the text of a content, of each of its parts, or of other values as JSON."""
    for part in value if isinstance(value, list) else [value]:
        text = part.get("text", part) if isinstance(part, dict) else part
        if text:
            yield text if isinstance(text, str) else json.dumps(text, ensure_ascii=False)

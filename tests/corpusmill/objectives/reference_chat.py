"""Rows of conversations by a plain program, which shares nothing with ours but the template.

Conversations are rendered by transformers, as people do before training. The turns of the assistant
are found by their prefixes as TRL does, and places of tokens by the tokenizers library.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from tokenizers import Tokenizer

from tests.tools.lazily import LazyModule

chat_templates = LazyModule("transformers.utils.chat_template_utils")

Piece = tuple[tuple[int, ...], tuple[int, ...]]


def render(template: str, messages: Sequence[Any], asks: bool, tokens: Mapping[str, str]) -> str:
    """Render a conversation."""
    rendered, _ = chat_templates.render_jinja_template(
        [list(messages)], chat_template=template, add_generation_prompt=asks, **tokens
    )
    text: str = rendered[0]
    return text


def encode(
    template: str,
    messages: Sequence[Mapping[str, str]],
    tokenizer: Tokenizer,
    special: Sequence[str],
    tokens: Mapping[str, str],
) -> Piece:
    """Return the ids of a conversation, and 1 for each that is learned."""
    text = render(template, messages, False, tokens)
    learned = [False] * len(text)
    for number, message in enumerate(messages):
        if message["role"] != "assistant":
            continue
        begin = len(render(template, messages[:number], True, tokens))
        end = len(render(template, messages[: number + 1], False, tokens))
        turn = text[begin:end]
        last = max(
            (turn.rfind(token) + len(token) for token in special if token in turn), default=0
        )
        if last and not turn[last:].strip():
            end = begin + last
        for place in range(begin, end):
            learned[place] = True
    encoding = tokenizer.encode(text, add_special_tokens=False)
    mask = [int(all(learned[begin:end])) for begin, end in encoding.offsets]
    return tuple(encoding.ids), tuple(mask)

"""Chat templates, rendered as transformers' `apply_chat_template` renders them.

The environment is jinja2's immutable sandbox with what transformers gives to it: trimmed blocks,
`break` and `continue`, `{% generation %}`, `tojson`, `raise_exception` and `strftime_now`. Source:
`_cached_compile_jinja_template` in transformers/utils/chat_template_utils.py. The date is an
option, as no build may depend on the day.

While a template renders, two things are noted: what stands in `{% generation %}`, and where the
loop that writes the messages reaches each of them. So the text of each message is known without
rendering the messages before it again.
"""

import json
import random
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import pairwise
from typing import Any, NamedTuple

from jinja2 import nodes
from jinja2.exceptions import TemplateError
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.runtime import LoopContext, Macro
from jinja2.sandbox import ImmutableSandboxedEnvironment

from corpusmill.objectives.chat_records import RefusedRecordError

_GENERATION = re.compile(r"\{%[-+]?\s*generation\s*[-+]?%\}")
# Texts that are words, attributes and variables.
_WORDS = re.compile(r"(?<![\w|>])[^\W\d]\w*(?![\w|>])")

Span = tuple[int, int]


class Rendering(NamedTuple):
    """The text of a conversation.

    Attributes:
        text: the text.
        turns: where the text of each message is, by its number; empty if that is not known.
        generated: what stands in `{% generation %}`.
    """

    text: str
    turns: dict[int, Span]
    generated: list[Span]


class _Progress:
    """How far a template has come, and what it has come to."""

    def __init__(self) -> None:
        self.begin([])

    def begin(self, messages: Sequence[Any]) -> None:
        self.length = 0
        self.generated: list[tuple[int, str]] = []
        self._numbers = {id(message): number for number, message in enumerate(messages)}
        self._loops: list[list[tuple[int, int]]] = []

    def new_loop(self) -> list[tuple[int, int]]:
        """Return the list of a loop's steps: the number of a message, and how far the text was."""
        self._loops.append([])
        return self._loops[-1]

    def note(self, loop: list[tuple[int, int]], message: Any) -> None:
        """Note that a loop reaches a message, or its end."""
        number = self._numbers.get(id(message), -1)
        if number >= 0 or (message is None and loop):
            loop.append((number, self.length))

    def find_turns(self) -> dict[int, Span]:
        """Return the text of each message: what the loop that writes most has written for it."""
        loop = max(
            self._loops, key=lambda loop: loop[-1][1] - loop[0][1] if loop else 0, default=[]
        )
        numbers = [number for number, _ in loop if number >= 0]
        if numbers != sorted({*numbers}):
            return {}
        steps = pairwise([*loop, (-1, self.length)])
        spans = ((number, (begin, end)) for (number, begin), (_, end) in steps)
        return {number: span for number, span in spans if number >= 0}


class _Messages(list[Any]):
    """Messages whose loops are noted."""

    def __init__(self, messages: Iterable[Any], progress: _Progress) -> None:
        super().__init__(messages)
        self.progress = progress

    def __iter__(self) -> Iterator[Any]:
        loop = self.progress.new_loop()
        for message in super().__iter__():
            self.progress.note(loop, message)
            yield message
        self.progress.note(loop, None)

    def __getitem__(self, key: Any) -> Any:
        item = super().__getitem__(key)
        return _Messages(item, self.progress) if isinstance(key, slice) else item

    def plain(self) -> list[Any]:
        return [*super().__iter__()]


def _make_loop(progress: _Progress) -> type[LoopContext]:
    """Return jinja2's loop with `loop` in it, which reads a message ahead, with its steps noted."""

    class Loop(LoopContext):
        def __init__(self, iterable: Any, *args: Any, **kwargs: Any) -> None:
            values = iterable.plain() if isinstance(iterable, _Messages) else iterable
            super().__init__(values, *args, **kwargs)
            self._steps = progress.new_loop()

        def __next__(self) -> Any:
            try:
                value, loop = super().__next__()
            except StopIteration:
                progress.note(self._steps, None)
                raise
            progress.note(self._steps, value)
            return value, loop

    return Loop


class _Generation(Extension):
    """`{% generation %}`: what a model generates."""

    tags = {"generation"}  # noqa: RUF012  as jinja2 declares it

    def parse(self, parser: Parser) -> nodes.Node:
        """Make the tag's content a call, as transformers does."""
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.CallBlock(self.call_method("_note"), [], [], body).set_lineno(line)

    def _note(self, caller: Macro) -> str:
        text: str = caller()
        progress = self.environment.progress  # type: ignore[attr-defined]
        progress.generated.append((progress.length, text))
        return text


def _raise_exception(message: str) -> None:
    raise TemplateError(message)


def _to_json(value: Any, ensure_ascii: bool = False, **layout: Any) -> str:
    return json.dumps(value, ensure_ascii=ensure_ascii, **layout)


def _make_environment(date: str, progress: _Progress) -> ImmutableSandboxedEnvironment:
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, loopcontrols]
    )
    environment.extend(progress=progress)
    environment.filters["tojson"] = _to_json
    environment.globals |= {
        "raise_exception": _raise_exception,
        "strftime_now": datetime.fromisoformat(date).strftime,
    }
    return environment


class ChatTemplate:
    """A chat template, compiled.

    Args:
        source: its text.
        date: what `strftime_now` writes, in ISO 8601.

    Attributes:
        has_marks: whether it marks what a model generates.

    Raises:
        Exception: any that jinja2 raises for a text that is no template.
    """

    def __init__(self, source: str, date: str) -> None:
        self._source, self.has_marks = source, bool(_GENERATION.search(source))
        self._words, self._progress = {*_WORDS.findall(source)}, _Progress()
        self._template = _make_environment(date, self._progress).from_string(source)
        names = self._template.root_render_func.__globals__
        names["LoopContext"] = _make_loop(self._progress)

    def is_known(self, name: str) -> bool:
        """Return whether the template looks for a name: as an attribute, a text or a variable."""
        return name in self._words

    def seeks(self, text: str) -> bool:
        """Return whether the template looks for a text in others, as `'</think>' in content`."""
        literal = rf"""['"]{re.escape(text)}['"]"""
        return bool(re.search(rf"{literal}\s+(not\s+)?in\b|\.\w+\(\s*{literal}", self._source))

    def render(
        self, messages: Sequence[Any], values: Mapping[str, Any], asks: bool = False
    ) -> Rendering:
        """Render a conversation.

        Args:
            messages: the messages.
            values: what the template knows beside them.
            asks: whether what asks for an answer stands at the end.

        Raises:
            RefusedRecordError: the template refuses the conversation, or fails on it.
        """
        progress, pieces = self._progress, list[str]()
        progress.begin(messages)
        random.seed(0)  # which templates may draw from
        variables = {
            **values,
            "messages": _Messages(messages, progress),
            "add_generation_prompt": asks,
        }
        try:
            for piece in self._template.generate(variables):
                pieces.append(piece)
                progress.length += len(piece)
        except Exception as error:  # templates of strangers fail in any way
            detail = str(error).strip() or type(error).__name__
            raise RefusedRecordError("template-refuses", detail) from None
        text = "".join(pieces)
        return Rendering(text, progress.find_turns(), [*_locate(text, progress.generated)])


def _locate(text: str, generated: Sequence[tuple[int, str]]) -> Iterator[Span]:
    """Yield where generated texts are; within macros they are further on than was known."""
    for least, piece in generated:
        begin = text.find(piece, least)
        if begin < 0:
            cause = "it changes what stands in {% generation %}"
            raise RefusedRecordError("template-refuses", cause)
        yield begin, begin + len(piece)

"""Conversations to marked texts, in a process of its own (`corpusmill.objectives.chat`).

What of a conversation is learned is found in one rendering:

    marks     what the template has in `{% generation %}` and `{% endgeneration %}`, as
              transformers' `return_assistant_tokens_mask` finds it.
    turns     without marks, the text that the template's loop writes for a message of the
              assistant, after what asks for an answer (`add_generation_prompt`), up to its last
              special token if only white space follows that.

The record is compared with the text: what does not reach it is counted by name, and a record of
which nearly nothing does is refused.
"""

import json
import re
import resource
import signal
import sys
import time
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from corpusmill.objectives.chat_records import (
    ASSISTANT,
    IDENTIFIERS,
    USUAL_ROLES,
    Conversation,
    Layout,
    RefusedRecordError,
    list_texts,
    read_conversation,
)
from corpusmill.objectives.chat_templates import ChatTemplate, Rendering, Span
from corpusmill.tokenization.text_cuts import APART, BEGIN, END, write_counts

# The memory of the process; the seconds of a processor that a record may take, and those beside
# them for each megabyte of it. A rendering takes milliseconds, and some 50 MB.
MEMORY_BYTES, SECONDS, SECONDS_PER_MEGABYTE = 2**30, 1, 10
_RESERVED = re.compile("[\ufdd0-\ufdef]")
# transformers gives a message's thoughts to templates under two of these names.
_THOUGHTS = ("reasoning_content", "thinking", "reasoning")
# The share of the contents that must reach the text.
_LEAST_SHARE = 0.1
_TAGS_AND_BREAKS = re.compile(r"<[^<>\s]*>|\n")
_SILENT = IDENTIFIERS | {"content"}
_TEXTS = ("text", "input_text", "output_text")
# Versions of Python allow different depths.
_MOST_LEVELS = 200
# Names that are counted: words, as there may be a million others.
_NAME = re.compile(r"[A-Za-z_][\w.-]{0,40}")
_MOST_NAMES = 32


@dataclass
class Renderer:
    """Renders records.

    Attributes:
        templates: the text of each template, by name; "default" is that without tools.
        date: what `strftime_now` writes.
        values: what templates know beside messages and tools.
        special: the texts of all special tokens, the longest first.
        layout: the names of fields, as `Layout` has them.
        roles: those whose turns are learned.
        last_alone: whether the last of these turns alone is learned.
        end_of_turn: special tokens that end a turn for which the template has no end.
    """

    templates: Mapping[str, str]
    date: str
    values: Mapping[str, Any]
    special: Sequence[str]
    layout: Sequence[Any]
    roles: Sequence[str]
    last_alone: bool
    end_of_turn: Sequence[str]

    def __post_init__(self) -> None:
        self._templates = dict[str, tuple[ChatTemplate, _Apart]]()
        for name, text in self.templates.items():
            template = ChatTemplate(text, self.date)
            written = [token for token in self.special if not template.seeks(token)]
            self._templates[name] = template, _Apart(written)
        self._bos, self._tokens = self.values.get("bos_token", ""), (*self.special,)
        self._special = _compile(self.special)

    def __call__(self, record: Mapping[str, Any], others: Sequence[str]) -> str:
        """Return the text of a record, with marks around what is learned.

        Args:
            record: the fields of `Layout.fields` that it has.
            others: the names of its other fields.

        Raises:
            RefusedRecordError: it is no conversation, or the template refuses it.
        """
        try:
            return self._render(record, others, parses_arguments=True)
        except RefusedRecordError as error:
            with suppress(RefusedRecordError):  # some templates take arguments as a text
                return self._render(record, others, parses_arguments=False)
            raise error from None

    def _render(
        self, record: Mapping[str, Any], others: Sequence[str], parses_arguments: bool
    ) -> str:
        template, apart = self._choose_template(record)
        conversation = read_conversation(
            record, Layout(*self.layout), template.is_known, parses_arguments
        )
        messages = [_alias_thoughts(message) for message in conversation.messages]
        messages, tools, values = apart(
            [messages, conversation.tools, conversation.template_values]
        )
        values = {**self.values, "documents": None, **values, "tools": tools}
        try:
            rendering = template.render(messages, values)
        except RefusedRecordError as error:
            are_parts = any(isinstance(message.get("content"), list) for message in messages)
            kind = "lists of parts" if are_parts else "texts"
            hint = f" (the contents of its messages are {kind})"
            detail = error.detail + hint * (are_parts or "object" in error.detail)
            raise RefusedRecordError(error.reason, detail) from None
        if not rendering.text.strip():
            raise RefusedRecordError("template-refuses", "its text is empty")
        counts = Counter[str]()
        for role in filter(_NAME.fullmatch, (message["role"] for message in messages)):
            counts[f"messages.{role}"] += 1
            counts[f"unknown_roles.{role}"] += role not in {*USUAL_ROLES, *self.roles}
        text = "".join(rendering.text.replace(APART, "").split())
        names = {*_find_unread(conversation, _Search(text), template), *others}
        named = sorted(filter(_NAME.fullmatch, names))[:_MOST_NAMES]
        counts.update(f"unread.{name}" for name in named)
        learned = self._choose_learned(rendering, conversation, template, values, messages)
        text, learned, ends = self._end_turns(rendering.text, learned)
        return write_counts(counts + ends) + _mark(text, learned)

    def _choose_template(self, record: Mapping[str, Any]) -> tuple[ChatTemplate, "_Apart"]:
        has_tools = record.get("tools", record.get("functions")) is not None
        name = "tool_use" if has_tools and "tool_use" in self._templates else "default"
        if name not in self._templates:
            detail = f"no template is named {name}, but {', '.join(self._templates)}"
            raise RefusedRecordError("template-refuses", detail)
        return self._templates[name]

    def _choose_learned(
        self,
        rendering: Rendering,
        conversation: Conversation,
        template: ChatTemplate,
        values: Mapping[str, Any],
        messages: Sequence[Any],
    ) -> list[Span]:
        """Return what is learned, each turn by itself, in the order of the text."""
        text, turns, roles = rendering.text, rendering.turns, [m["role"] for m in messages]
        spans: list[tuple[int, Span]] = []
        wanted = [
            number
            for number, (role, is_said) in enumerate(zip(roles, conversation.learned, strict=True))
            if (role in self.roles if is_said is None else is_said)
        ]
        if template.has_marks and ASSISTANT in self.roles:
            spans = [(_find_turn(turns, span), span) for span in rendering.generated]
            wanted = [number for number in wanted if roles[number] != ASSISTANT]
            needs_turns = self.last_alone or False in conversation.learned
            if needs_turns and any(number < 0 for number, _ in spans):
                raise _unknown_turns(text)
        prompts = dict[str, list[str]]()
        for number in wanted:
            begin, end = turns.get(number) or self._find_first(text, turns, number)
            if roles[number] == ASSISTANT and begin < end:
                before = roles[number - 1] if number else ""
                if before not in prompts:
                    prompts[before] = self._list_prompts(template, messages, values, number)
                begin = self._skip_prompt(text, begin, end, prompts[before])
            turn = text[begin:end].rstrip()  # ends with its last special token if nothing follows
            spans.append(
                (number, (begin, begin + len(turn) if turn.endswith(self._tokens) else end))
            )
        chosen = [
            (number, span)
            for number, span in sorted(spans, key=lambda pair: pair[1])
            if span[0] < span[1] and (number < 0 or conversation.learned[number] is not False)
        ]
        last = chosen[-1][0] if self.last_alone and chosen else None
        return [span for number, span in chosen if last in {None, number}]

    def _find_first(self, text: str, turns: Mapping[int, Span], number: int) -> Span:
        """Return the turn before the loop's first one, as of the system; it follows bos_token."""
        first = min(turns, default=0)
        if number != first - 1:
            if turns:  # the template leaves the message out
                return 0, 0
            raise _unknown_turns(text)
        return len(self._bos) if text.startswith(self._bos) else 0, turns[first][0]

    def _list_prompts(
        self,
        template: ChatTemplate,
        messages: Sequence[Any],
        values: Mapping[str, Any],
        number: int,
    ) -> list[str]:
        """Return what asks for the answer of a message, and its beginnings, the longest first.

        Where the message is the first one, it is what would ask for one at the end.
        """
        before = messages[:number] or messages
        try:
            plain = template.render(before, values).text
            asking = template.render(before, values, asks=True).text
        except RefusedRecordError:
            return []
        prompt = asking[len(plain) :] if asking.startswith(plain) else ""
        prompt = prompt if number else prompt.lstrip()
        cuts = re.finditer(rf"[\s>\]:]|{self._special.pattern}|$", prompt)
        return [prompt[:end] for end in sorted({cut.end() for cut in cuts} - {0}, reverse=True)]

    def _skip_prompt(self, text: str, begin: int, end: int, prompts: Sequence[str]) -> int:
        """Return where an answer begins: after what asks for it, or as much of that as is there."""
        if not begin and text.startswith(self._bos):
            begin += len(self._bos)
        for prompt in prompts:
            if text.startswith(prompt, begin):
                return begin + len(prompt)
        # A default text of the system may come first; or the template continues a turn.
        place = text.find(prompts[0], begin, end) if prompts else -1
        return place + len(prompts[0]) if place >= 0 else begin

    def _end_turns(self, text: str, spans: Sequence[Span]) -> tuple[str, list[Span], Counter[str]]:
        """Give turns without an end one, and count those that get none."""
        counts, ended = Counter[str](learned_turns=len(spans)), list[Span]()
        for begin, end in spans:
            following, last = self._special.match(text, end), end
            is_open = not text[begin:end].rstrip().endswith(self._tokens)
            if is_open and following and following[0] in self.end_of_turn:
                last = following.end()
            elif is_open and self.end_of_turn and not text[end:].strip():
                text = f"{text[:end]}{self.end_of_turn[0]}{text[end:]}"
                last = end + len(self.end_of_turn[0])
            elif is_open:
                proposal = following[0] if following else self.values.get("eos_token", "")
                counts[f"open_turns.{proposal}"] += 1
            ended.append((begin, last))
        return text, ended, counts


def _mark(text: str, spans: Sequence[Span]) -> str:
    """Put marks around spans, which are joined where they touch."""
    pieces, place = list[str](), 0
    for begin, end in spans:
        pieces += [text[place:begin], BEGIN, text[max(begin, place) : end], END]
        place = end
    return "".join([*pieces, text[place:]]).replace(END + BEGIN, "")


def _compile(special: Sequence[str]) -> re.Pattern[str]:
    return re.compile("|".join(map(re.escape, special)) or r"(?!)")


class _Apart:
    """Keeps what people write from becoming special tokens, also where two texts meet.

    Args:
        special: the special tokens, the longest first. Those that the template looks for in texts
            are none of them: they are what people mean.
    """

    def __init__(self, special: Sequence[str]) -> None:
        self._special = _compile(special)
        self._beginnings = {token[:end] for token in special for end in range(1, len(token))}
        self._lasts = {beginning[-1] for beginning in self._beginnings}
        self._longest = max(map(len, special), default=0)

    def __call__(self, value: Any, levels: int = _MOST_LEVELS) -> Any:
        if not levels:
            detail = f"it is nested in more than {_MOST_LEVELS} levels"
            raise RefusedRecordError("not-a-conversation", detail)
        match value:
            case str():
                return value if value in USUAL_ROLES else self._break(value)
            case list():
                return [self(inner, levels - 1) for inner in value]
            case dict():
                return {
                    key if key.isidentifier() else self._break(key): self(inner, levels - 1)
                    for key, inner in value.items()
                }
        return value

    def _break(self, text: str) -> str:
        text = self._special.sub(lambda token: f"{token[0][0]}{APART}{token[0][1:]}", text)
        end = text.rstrip()
        if end[-1:] not in self._lasts:  # as most texts
            return text
        for size in range(min(self._longest, len(end)), 0, -1):
            if end[-size:] in self._beginnings:
                place = len(end) - size + 1
                return f"{text[:place]}{APART}{text[place:]}"
        return text


def _find_turn(turns: Mapping[int, Span], span: Span) -> int:
    """Return the number of the message in whose turn a span begins; -1 if there is none."""
    numbers = [*turns]
    place = bisect_right(numbers, span[0], key=lambda number: turns[number][0]) - 1
    return numbers[place] if place >= 0 else -1


def _unknown_turns(text: str) -> RefusedRecordError:
    detail = "what is learned of it cannot be told, as the template neither marks it nor writes "
    detail += "messages one after the other in a loop: "
    return RefusedRecordError(
        "template-refuses", detail + json.dumps(text[:300], ensure_ascii=False)
    )


def _alias_thoughts(message: dict[str, Any]) -> dict[str, Any]:
    """Give thoughts the names that templates read. Source: transformers' chat_template_utils."""
    thoughts = next((message[key] for key in _THOUGHTS if key in message), None)
    if thoughts is None:
        return message
    return {"thinking": thoughts, **message, "reasoning_content": thoughts}


class _Search:
    """Finds texts in one, without their white space, the faster if they come in its order."""

    def __init__(self, text: str) -> None:
        self._text, self._place = text, 0

    def finds(self, text: str) -> bool:
        """Return whether a text is there, perhaps as JSON writes it."""
        return self._finds(text) or any(
            self._finds(json.dumps(text, ensure_ascii=is_ascii)[1:-1]) for is_ascii in (False, True)
        )

    def _finds(self, text: str) -> bool:
        sought = "".join(text.split())
        place = self._text.find(sought, self._place)
        place = self._text.find(sought) if place < 0 else place
        self._place = max(self._place, place)
        return place >= 0


def _find_unread(
    conversation: Conversation, search: _Search, template: ChatTemplate
) -> Iterator[str]:
    """Yield the names of what does not reach the text.

    Raises:
        RefusedRecordError: that is nearly all of the contents.
    """
    if not _read_contents(conversation.messages, search):
        yield "messages.content"
    for message in conversation.messages:
        content = message.get("content")
        for part in content if isinstance(content, list) else ():
            if isinstance(part, dict) and part.get("type", "text") not in _TEXTS:
                yield f"messages.content.{part['type']}"
        for key, value in message.items():
            is_silent = key in _SILENT or (key == "name" and message["role"] == "tool")
            if not is_silent and not _is_read(value, search, template.is_known(key)):
                yield f"messages.{key}"
    for name, value in conversation.others.items():
        may_be_there = name in {"system", "tools", "functions"}
        if value and not (may_be_there and _is_read(value, search, is_known=True)):
            yield name
    if not all(map(template.is_known, conversation.template_values)):
        yield "chat_template_kwargs"


def _read_contents(messages: Sequence[Mapping[str, Any]], search: _Search) -> bool:
    """Return whether all contents are there as they are.

    Raises:
        RefusedRecordError: they are written as Python prints them, or nearly none of them is.
    """
    sizes, are_whole = Counter[bool](), True
    for content in (message.get("content") for message in messages):
        if isinstance(content, list | dict) and search.finds(str(content)[:24]):
            detail = "the template writes contents that are lists of parts as Python prints them"
            raise RefusedRecordError("template-refuses", f"{detail}; it takes texts")
        for text in list_texts(content):
            is_whole = search.finds(text)
            are_whole &= is_whole
            # A line of it may be there, or what stands between tags.
            parts = filter(str.strip, _TAGS_AND_BREAKS.split(text))
            sizes[is_whole or any(map(search.finds, parts))] += len(text)
    if sizes[True] < _LEAST_SHARE * sizes.total():
        detail = "the template writes next to nothing of the contents of messages; it may take "
        detail += "lists of parts where they are texts, or texts where they are lists"
        raise RefusedRecordError("template-refuses", detail)
    return are_whole


def _is_read(value: Any, search: _Search, is_known: bool) -> bool:
    """Whether all texts in a value are there; of one without texts, whether its name is known."""
    texts = [*list_texts(value)]
    return all(map(search.finds, texts)) if texts else not value or is_known


def _limit(resource_kind: int, most: int) -> None:
    """Let the process end, or fail, if it takes more of a resource."""
    _, hard = resource.getrlimit(resource_kind)
    limit = most if hard == resource.RLIM_INFINITY else min(most, hard)
    resource.setrlimit(resource_kind, (limit, hard))


def main() -> None:
    """Answer lines of JSON: first what a `Renderer` is made of, and then records."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _limit(resource.RLIMIT_CORE, 0)
    _limit(resource.RLIMIT_AS, MEMORY_BYTES)
    render: Renderer | None = None
    for line in sys.stdin.buffer:
        seconds = SECONDS + len(line) * SECONDS_PER_MEGABYTE // 2**20
        _limit(resource.RLIMIT_CPU, int(time.process_time()) + 1 + seconds)
        answer: dict[str, str] = {}
        try:
            question = line.decode(errors="surrogatepass")
            if render is None:
                render = Renderer(**json.loads(question))
            elif _RESERVED.search(question):
                detail = "it has a noncharacter, U+FDD0 to U+FDEF"
                raise RefusedRecordError("not-a-conversation", detail)
            else:
                answer["text"] = render(*json.loads(question))
        except RefusedRecordError as error:
            answer = {"reason": error.reason, "detail": error.detail}
        except Exception as error:  # of a template, or of a record that is nested too deep
            detail = str(error).strip() or type(error).__name__
            answer = {"reason": "template-refuses", "detail": detail}
        written = json.dumps(answer, ensure_ascii=False).encode(errors="surrogatepass")
        sys.stdout.buffer.write(written + b"\n")
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()

"""Conversations, rendered by the tokenizer's own template, and a mask of what is learned.

A record is a conversation: messages with roles and contents, turns as ShareGPT has them, or an
instruction as Alpaca has it. A chat template (`corpusmill.objectives.chat_templates`) makes its
text. A row is whole conversations that together fill max_seq_length as well as possible
(`corpusmill.objectives.examples.packing`), and the turns of the assistant alone are learned.

Where the turns are in the text is found in two ways, of which neither guesses:

    prefixes  the text of the messages before a turn, with what asks for an answer, must begin the
              text of all, and so must that of the messages up to the turn. What lies between is the
              turn. Source: `get_training_chat_template` and the tokenizing of prompts in TRL.
    marks     what a template has between {% generation %} and {% endgeneration %}. Source:
              `return_assistant_tokens_mask` of transformers' `apply_chat_template`.

A turn ends with its last special token, if only white space follows that. Where a template has
marks, both ways must agree on each conversation.
"""

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Literal, Self

import numpy as np
import pyarrow as pa

from corpusmill.arrays import ragged
from corpusmill.arrays.columns import NO_PAD, Column, Role
from corpusmill.corpus.batches import UnreadableError
from corpusmill.corpus.document_options import DocumentOptions, TextMaker
from corpusmill.errors import UserError, option
from corpusmill.limits import FileLimits
from corpusmill.objectives.chat_templates import load_template
from corpusmill.objectives.columns import SPANS, boundary_column, token_column
from corpusmill.objectives.examples.packing import mark_pieces, pack_pieces
from corpusmill.objectives.examples.row_spans import locate_stretches, single_spans
from corpusmill.objectives.objective import Objective, Repeat
from corpusmill.objectives.objective_options import ObjectiveOptions, SuitedTokenizer
from corpusmill.objectives.tokenized_documents import unpack_documents
from corpusmill.tokenization.marked_texts import list_special, special_pattern
from corpusmill.tokenization.text_cuts import APART, BEGIN, END, RESERVED, Cuts, TextMarks
from corpusmill.tokenization.tokenizer_file import (
    ROLES,
    SpecialTokens,
    TokenizerFile,
    Vocabulary,
    added_tokens,
)

ASSISTANT = "assistant"
_ROLES = ("system", "user", ASSISTANT, "tool")
_MARKS = TextMarks(tuple(f"messages.{role}" for role in (*_ROLES, "other")))
# What ShareGPT calls the roles.
_SHARE_GPT = {
    "human": "user", "gpt": ASSISTANT, "chatgpt": ASSISTANT, "bard": ASSISTANT, "bing": ASSISTANT,
    "observation": "tool", "function_response": "tool",
}  # fmt: skip
_ALPACA = ("instruction", "input", "output")
_FIELDS = ("conversations", *_ALPACA, "system", "tools")
_NOT_LEARNED = -100
# Characters of a text that a message shows.
_SHOWN = 300

Span = tuple[int, int]


@dataclass(frozen=True)
class ChatOptions(ObjectiveOptions):
    """How rows of conversations are made."""

    summary: ClassVar[str] = (
        "Build a data set of conversations: packed, and with a mask of what is learned."
    )
    collator: ClassVar[str] = "corpusmill.reading.collate.causal_collators:collate_causal_lm"
    suited_tokenizer: ClassVar[SuitedTokenizer] = SuitedTokenizer(
        "bpe", ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
    )

    max_seq_length: int = 4096
    """Longest row, in tokens. A conversation is never cut: longer ones are left out and counted."""
    chat_template: str | None = None
    """File of the Jinja template that renders conversations; by default the chat_template.jinja
    beside the tokenizer, or chat_template in its tokenizer_config.json. The manifest keeps its
    text."""
    messages_field: str = "messages"
    """Name of the field with the messages, each of which has role and content, or from and value.
    Records without it have conversations, or instruction, input and output."""
    learned_roles: tuple[str, ...] = (ASSISTANT,)
    """Roles whose turns are learned (assistant system)."""
    last_turn_alone: bool = False
    """Learn the last of these turns alone."""
    mask: Literal["loss_mask", "labels"] = "loss_mask"
    """The column that says what is learned: 1 or 0 (loss_mask), or the token itself or -100
    (labels)."""

    def __post_init__(self) -> None:
        """Check each option.

        Raises:
            UserError: rows cannot be built with a value.
        """
        self.check_ranges(max_seq_length=(2, 2**20))
        object.__setattr__(self, "learned_roles", (*self.learned_roles,))  # JSON has lists
        for name in ("messages_field", "learned_roles"):
            values = getattr(self, name)
            if not values or not all(values):
                raise UserError(f"{option(name)} ''", "it is empty", "Leave it out")

    @classmethod
    def reads_fields(cls, names: Sequence[str]) -> bool:
        """Return whether records with these fields look like conversations."""
        return _has_conversation(names, cls.messages_field)

    def complete(self, tokenizer: TokenizerFile, read_bytes: Callable[[str], bytes | None]) -> Self:
        """Return the options with the text of the template.

        Raises:
            UserError: there is none, or it cannot be used.
        """
        text = self.chat_template
        if text is None:
            text = tokenizer.chat_template
            if text is None:
                cause = f"the tokenizer {tokenizer.name} has no chat template beside it"
                cure = "Give the file of one, or a folder that has tokenizer_config.json, too"
                raise UserError(option("chat_template"), cause, cure)
        elif "{" not in text:  # a path, and not a text as manifests have it
            content = read_bytes(text)
            if content is None:
                raise UserError(
                    option("chat_template", text), "there is no such file", "Correct the path"
                )
            text = content.decode("utf-8-sig", errors="replace")
        if "\ufffd" in text:  # which stands for bytes that could not be decoded
            cause = "it is not UTF-8, or has the character U+FFFD"
            raise UserError(option("chat_template"), cause, "Save it as UTF-8, without U+FFFD")
        if not RESERVED.isdisjoint(text):
            cause = "it has noncharacters of Unicode (U+FDD0 to U+FDEF)"
            raise UserError(option("chat_template"), cause, "Remove them")
        load_template(text)
        return replace(self, chat_template=text)

    def bind(self, tokenizer: Vocabulary) -> "Chat":
        """Return the objective for a tokenizer."""
        return Chat(self, tokenizer.special, tokenizer.token_dtype.name, tokenizer.vocab_size)

    def choose_documents(self, documents: DocumentOptions) -> DocumentOptions:
        """Read each record as one text.

        Raises:
            UserError: texts are to be read in another way.
        """
        if documents.text_field != DocumentOptions.text_field:
            cause = "the text of a conversation is made of several fields"
            cure = f"Name the field of the messages with {option('messages_field')}"
            raise UserError(option("text_field", documents.text_field), cause, cure)
        documents = documents.or_else("wikitext-articles", "document")
        if not documents.keeps_text:
            cause = "a conversation is one text, which has no sentences"
            raise UserError(option("sentence_rule", documents.sentence_rule), cause, "Leave it out")
        return documents


@dataclass(frozen=True)
class Chat(Objective):
    """The objective `chat`, bound to a tokenizer's ids.

    Attributes:
        options: how rows are made.
        special: the tokenizer's special ids.
        token_dtype: the NumPy name of the type of a token id.
        vocab_size: the bound of the ids.
    """

    name = "chat"

    options: ChatOptions
    special: SpecialTokens
    token_dtype: str
    vocab_size: int

    @property
    def facts(self) -> Mapping[str, Any]:
        """The digest of the template, as others may have computed it."""
        text = (self.options.chat_template or "").encode()
        return {"chat_template_sha256": hashlib.sha256(text).hexdigest()}

    def text_maker(self, tokenizer_json: str) -> TextMaker | None:
        """Return what renders conversations."""
        options = self.options
        if options.chat_template is None:
            return None
        names = {each["id"]: each["content"] for each in added_tokens(json.loads(tokenizer_json))}
        ids = ((role, self.special.find(role)) for role in (*ROLES, "bos"))
        tokens = tuple((f"{role}_token", names[token]) for role, token in ids if token in names)
        return Conversations(
            options.chat_template,
            tokens,
            list_special(tokenizer_json),
            options.messages_field,
            options.learned_roles,
            options.last_turn_alone,
        )

    def text_cuts(self, seed: int) -> Cuts | None:  # noqa: ARG002  nothing is drawn
        """Return the marks in texts, of which every second piece is learned."""
        return _MARKS

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        """The columns of the data set."""
        length, pad_id = self.options.max_seq_length, self.special.pad_id
        if pad_id is None or pad_id == self.special.eos_id:
            pad_id = NO_PAD  # it could be mistaken for the row's own end
        meaning = "the tokens of conversations, one behind the other"
        tokens = token_column(self.token_dtype, meaning, length, pad_id)
        mask = Column(
            "loss_mask", "int8", "1 where a token is learned", length, role=Role.LEARNED, largest=1
        )
        if self.options.mask == "labels":
            mask = Column(
                "labels",
                "int32",
                "the token where it is learned, -100 elsewhere",
                length,
                _NOT_LEARNED,
                Role.LEARNED,
                _NOT_LEARNED,
                self.vocab_size - 1,
            )
        return (tokens, boundary_column(length, length), mask)

    @cached_property
    def built_columns(self) -> tuple[Column, ...]:
        """The columns that `build` returns."""
        return (*self.columns, SPANS)

    def build(self, documents: pa.RecordBatch, repeat: Repeat) -> pa.RecordBatch:
        """Take the conversations that a row can hold, each as a piece that `pack` packs."""
        index, token_ids = unpack_documents(documents)
        bounds = index.sentence_offsets[index.offsets]
        lengths = np.diff(bounds)
        places = np.flatnonzero(lengths <= self.options.max_seq_length)
        # Every second piece of a text is learned.
        pieces = index.sentence_offsets[index.offsets[0] : index.offsets[-1] + 1]
        counts = np.diff(index.offsets)
        numbers = np.arange(len(pieces) - 1) + index.offsets[0]
        is_inside = (numbers - np.repeat(index.offsets[:-1], counts)) % 2
        is_learned = np.repeat(is_inside.astype(np.int8), np.diff(pieces))
        ids, offsets = ragged.take(token_ids, bounds, places)
        learned, _ = ragged.take(is_learned, bounds - bounds[0], places)
        if self.options.mask == "labels":
            learned = np.where(learned, ids.astype(np.int32), np.int32(_NOT_LEARNED))
        stretches = locate_stretches(index, places, bounds[places], lengths[places])
        values = [
            ragged.to_arrow(ids, offsets),
            mark_pieces(offsets),
            ragged.to_arrow(learned, offsets),
            single_spans(stretches),
        ]
        indices = np.zeros(len(places), np.uint32)
        return self.make_rows(index.ids[places], repeat.number, indices, values)

    def count(self, documents: pa.RecordBatch, examples: pa.RecordBatch) -> dict[str, int]:
        """Count the conversations that are too long, and those of which nothing is learned."""
        index, _ = unpack_documents(documents)
        bounds = index.sentence_offsets[index.offsets[[0, -1]]]
        mask = self.columns[-1]
        values = examples.column(mask.name)
        learned, kept = ragged.count_others(values, mask.pad), len(values.flatten())
        return {
            "kept_tokens": kept,
            "trimmed_tokens": int(bounds[1] - bounds[0]) - kept,
            "learned_tokens": int(learned.sum()),
            "long_documents": documents.num_rows - examples.num_rows,
            "unlearned_documents": int(np.count_nonzero(learned == 0)),
        }

    def pack(self, rows: Iterator[pa.RecordBatch], limits: FileLimits) -> Iterator[pa.RecordBatch]:
        """Pack conversations into rows."""
        return pack_pieces(rows, self.options.max_seq_length, limits)


def _has_conversation(names: Sequence[str], field: str) -> bool:
    known = {*names}
    return not known.isdisjoint({field, "conversations"}) or {"instruction", "output"} <= known


@dataclass(frozen=True)
class Conversations:
    """Renders conversations (`corpusmill.corpus.document_options.TextMaker`).

    Attributes:
        template: the text of the template.
        tokens: what the template knows by names such as bos_token.
        special: the texts of all special tokens, the longest first.
        field: the field of the messages.
        roles: those whose turns are learned.
        last_alone: whether the last of these turns alone is learned.
    """

    template: str
    tokens: tuple[tuple[str, str], ...]
    special: tuple[str, ...]
    field: str = "messages"
    roles: tuple[str, ...] = (ASSISTANT,)
    last_alone: bool = False

    @property
    def fields(self) -> tuple[str, ...]:
        """The fields of which a conversation is made."""
        return (self.field, *(name for name in _FIELDS if name != self.field))

    def knows(self, names: Sequence[str]) -> bool:
        """Whether records with these fields look like conversations."""
        return _has_conversation(names, self.field)

    def __call__(self, record: Mapping[str, Any]) -> str:
        """Return a conversation's text, with marks around what is learned.

        Raises:
            UnreadableError: the record is no conversation, or the template refuses it.
            UserError: what is learned cannot be told.
        """
        messages, tools = read_messages(record, self.field), _parse(record.get("tools")) or None
        if not RESERVED.isdisjoint(json.dumps([messages, tools], ensure_ascii=False, default=str)):
            raise UnreadableError("not-a-conversation", "it has a noncharacter, U+FDD0 to U+FDEF")
        messages, tools = self._set_apart(messages), self._set_apart(tools)
        values = {**dict(self.tokens), "tools": tools, "documents": None}
        text, spans = self._find_learned(messages, values)
        if not text.strip():
            raise UnreadableError("template-refuses", "its text is empty")
        roles = [message["role"] for message in messages]
        counted = [f"messages.{role if role in _ROLES else 'other'}" for role in roles]
        marked = mark_spans(text, spans[-1:] if self.last_alone else spans)
        return "".join(map(_MARKS.of, counted)) + marked

    def _set_apart(self, value: Any) -> Any:
        """Keep what people write from becoming special tokens."""
        match value:
            case str():
                pattern = special_pattern(self.special)
                return pattern.sub(lambda found: f"{found[0][0]}{APART}{found[0][1:]}", value)
            case list():
                return [self._set_apart(inner) for inner in value]
            case dict():
                return {name: self._set_apart(inner) for name, inner in value.items()}
        return value

    def _find_learned(
        self, messages: list[dict[str, Any]], values: dict[str, Any]
    ) -> tuple[str, list[Span]]:
        """Return the text of a conversation, and the turns in it that are learned.

        Raises:
            UnreadableError: the template refuses the conversation.
            UserError: what is learned cannot be told.
        """
        template = load_template(self.template)

        def render(number: int, asks: bool = False) -> str:
            marked = template.render(messages[:number], asks, **values)
            return marked.replace(BEGIN, "").replace(END, "")

        text, marked = split_marks(template.render(messages, False, **values))
        by_marks = join_spans(self._end(text, *span) for span in marked)
        turns = self._find_turns(render, messages, text)
        if turns is None:
            if template.has_marks and {*self.roles} == {ASSISTANT}:
                return text, by_marks
            cause = "what is learned of a conversation cannot be told: the text of its first "
            cause += "messages does not begin the text of all of them, and the template has no "
            cause += f"{{% generation %}} for these roles ({_show(text)})"
            cure = "Give a template that marks the assistant's turns, or that keeps earlier "
            raise UserError(option("chat_template"), cause, f"{cure}turns as they were")
        of_assistant = join_spans(span for role, span in turns if role == ASSISTANT)
        if template.has_marks and of_assistant != by_marks:
            differ = sorted({*of_assistant} ^ {*by_marks})[0]
            cause = "what the template marks as generated is not what the text of the messages "
            cause += f"before it leaves: {_show(text, by_marks, differ)}, and not "
            cause += _show(text, of_assistant, differ)
            cure = "Let {% generation %} begin after what asks for an answer, and end after the "
            raise UserError(option("chat_template"), cause, f"{cure}token that ends the turn")
        return text, join_spans(span for role, span in turns if role in self.roles)

    def _find_turns(
        self, render: Callable[..., str], messages: Sequence[Mapping[str, Any]], text: str
    ) -> list[tuple[str, Span]] | None:
        """Return the role and the place of each turn, by the texts of the messages before it.

        None if these do not begin the whole text.
        """
        turns = []
        for number, message in enumerate(messages):
            role = message["role"]
            if role != ASSISTANT and role not in self.roles:
                continue
            try:
                before = render(number, role == ASSISTANT)
            except UnreadableError:
                if number or role == ASSISTANT:
                    return None
                before = dict(self.tokens).get("bos_token", "")
                before = before if text.startswith(before) else ""
            try:
                after = render(number + 1)
            except UnreadableError:
                return None
            if not (text.startswith(after) and after.startswith(before)):
                return None
            turns.append((role, self._end(text, len(before), len(after))))
        return turns

    def _end(self, text: str, begin: int, end: int) -> Span:
        """End a turn with its last special token, if only white space follows that."""
        ends = [found.end() for found in special_pattern(self.special).finditer(text, begin, end)]
        return begin, ends[-1] if ends and not text[ends[-1] : end].strip() else end


def read_messages(record: Mapping[str, Any], field: str) -> list[dict[str, Any]]:
    """Return the messages of a record, with role and content.

    Args:
        record: of messages, of ShareGPT's turns, or of Alpaca's fields.
        field: of the messages.

    Raises:
        UnreadableError: it is none of these.

    Example:
        {"conversations": [{"from": "human", "value": "Hi"}]} gives
        [{"role": "user", "content": "Hi"}].
    """
    turns = _parse(record.get(field)) or _parse(record.get("conversations"))
    if turns is None and isinstance(record.get("output"), str):
        parts = [record.get("instruction"), record.get("input")]
        question = "\n\n".join(part for part in parts if isinstance(part, str) and part)
        turns = [{"role": "user", "content": question}]
        turns.append({"role": ASSISTANT, "content": record["output"]})
    if not isinstance(turns, list) or not turns:
        detail = f"it has neither {field} nor conversations nor instruction and output"
        raise UnreadableError("not-a-conversation", detail)
    messages = [_read_message(turn) for turn in turns]
    system = record.get("system")
    if isinstance(system, str) and system and messages[0]["role"] != "system":
        messages.insert(0, {"role": "system", "content": system})
    return messages


def _read_message(turn: Any) -> dict[str, Any]:
    if not isinstance(turn, dict):
        raise UnreadableError("not-a-conversation", "a message is no object")
    # Tables have all keys in all messages.
    message = {key: each for key, each in turn.items() if each is not None or key == "content"}
    if "role" not in message and isinstance(message.get("from"), str):
        role = message.pop("from")
        message = {
            "role": _SHARE_GPT.get(role, role),
            "content": message.pop("value", None),
        } | message
    if not isinstance(message.get("role"), str):
        raise UnreadableError("not-a-conversation", "a message has no role")
    if not isinstance(message.get("content"), str | list | None):
        raise UnreadableError("not-a-conversation", "the content of a message is no text")
    if message.get("content") is None and "tool_calls" not in message:
        raise UnreadableError("not-a-conversation", "a message has no content")
    return message


def _parse(value: Any) -> Any:
    """Return what a text in JSON holds, and other values as they are."""
    if not isinstance(value, str) or not value:
        return value or None
    try:
        return json.loads(value)
    except ValueError as error:
        raise UnreadableError("not-a-conversation", f"a field is not JSON ({error})") from None


def split_marks(marked: str) -> tuple[str, list[Span]]:
    """Return a text without marks, and what stood between them.

    Raises:
        UserError: marks are within others.
    """
    pieces, spans, place = re.split(f"[{BEGIN}{END}]", marked), list[Span](), 0
    marks = [letter for letter in marked if letter in (BEGIN, END)]
    if marks != [BEGIN, END] * (len(marks) // 2):
        cause = "{% generation %} stands within another one"
        raise UserError(option("chat_template"), cause, "Mark each turn once")
    for number, piece in enumerate(pieces):
        if number % 2:
            spans.append((place, place + len(piece)))
        place += len(piece)
    return "".join(pieces), spans


def join_spans(spans: Any) -> list[Span]:
    """Join spans that touch, and leave out empty ones: (0, 2), (2, 3), (4, 4) give [(0, 3)]."""
    joined = list[Span]()
    for begin, end in spans:
        if begin == end:
            continue
        if joined and joined[-1][1] == begin:
            begin = joined.pop()[0]  # noqa: PLW2901
        joined.append((begin, end))
    return joined


def mark_spans(text: str, spans: Sequence[Span], marks: tuple[str, str] = (BEGIN, END)) -> str:
    """Put marks around spans of a text."""
    pieces, place = list[str](), 0
    for begin, end in spans:
        pieces += [text[place:begin], marks[0], text[begin:end], marks[1]]
        place = end
    return "".join([*pieces, text[place:]])


def _show(text: str, spans: Sequence[Span] = (), around: Span = (0, 0)) -> str:
    """Show the beginning of a text, or a span of it, with braces around spans."""
    first = max(0, around[0] - _SHOWN // 4)
    near = [(begin - first, end - first) for begin, end in spans if begin >= first]
    shown = mark_spans(
        text[first : first + _SHOWN], [(b, e) for b, e in near if e <= _SHOWN], ("{", "}")
    )
    return json.dumps(shown.replace(APART, ""), ensure_ascii=False)

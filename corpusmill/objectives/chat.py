"""Conversations, rendered by the tokenizer's own template, and a mask of what is learned.

A record is a conversation (`corpusmill.objectives.chat_records`). A chat template, which renders in
a process of its own, makes its text with marks around what is learned
(`corpusmill.objectives.chat_rendering`). A row is whole conversations that together fill
max_seq_length as well as possible (`corpusmill.objectives.examples.packing`).
"""

import hashlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
import pyarrow as pa

from corpusmill.arrays import ragged
from corpusmill.arrays.columns import Column, Role
from corpusmill.corpus.batches import UnreadableError
from corpusmill.corpus.document_options import DocumentOptions, TextMaker
from corpusmill.errors import UserError, in_one_line, option, printable
from corpusmill.objectives.chat_records import (
    ASSISTANT,
    Layout,
    RefusedRecordError,
    join_texts,
    propose_fields,
    read_conversation,
)
from corpusmill.objectives.columns import SPANS, boundary_column, pad_of_text, token_column
from corpusmill.objectives.examples.packing import mark_pieces, pack_pieces
from corpusmill.objectives.examples.row_spans import locate_stretches, single_spans
from corpusmill.objectives.objective import Objective, Repeat
from corpusmill.objectives.objective_options import ObjectiveOptions, SuitedTokenizer
from corpusmill.objectives.tokenized_documents import unpack_documents
from corpusmill.settings.constraints import Range
from corpusmill.tokenization.text_cuts import RESERVED, Cuts, TextMarks
from corpusmill.tokenization.tokenizer_file import (
    ROLES,
    SpecialTokens,
    TokenizerFile,
    Vocabulary,
    added_tokens,
    divide_templates,
    special_names,
)

_NOT_LEARNED = -100
# What the value of an option must be beyond its type, and the cure.
_CHECKS: tuple[tuple[str, Callable[[Any], Any], str], ...] = (
    ("messages_field", bool, "Leave it out"),
    ("learned_roles", lambda roles: roles and all(roles), "Leave it out"),
    ("instruction_fields", lambda names: len(names) > 1, "Name two or three: question answer"),
    (
        "chat_template_kwargs",
        lambda text: isinstance(json.loads(text or "{}"), dict),
        "Give an object in JSON",
    ),
    ("chat_template_date", datetime.fromisoformat, "Give a date such as 2025-01-31"),
)
# The process in which templates of strangers render, with limits of time and memory.
_MODULE = "corpusmill.objectives.chat_rendering"
_ENDS = {
    -signal.SIGXCPU: "it takes a thousand times the processor time of a conversation of its length",
    -signal.SIGKILL: "the process that renders it was killed, as for want of memory",
}
_GREETING = [{"role": "user", "content": "Hi"}, {"role": ASSISTANT, "content": "Hello"}]


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

    max_seq_length: Annotated[int, Range(2, 2**20)] = 4096
    """Longest row, in tokens. A conversation is never cut: longer ones are left out and counted."""
    chat_template: str | None = None
    """File of the Jinja template that renders conversations; by default the chat_template.jinja
    beside the tokenizer, or chat_template in its tokenizer_config.json. The manifest keeps its
    text."""
    chat_template_kwargs: str | None = None
    """Values that the template gets beside the messages, as an object in JSON
    ({"enable_thinking": false}). Those of a record's field chat_template_kwargs come first."""
    chat_template_date: str = "2025-01-01"
    """The day that templates write for today (strftime_now). It does not follow the clock, so that
    each build gives the same bytes."""
    messages_field: str = "messages"
    """Name of the field with the messages, each of which has role and content, or from and value.
    Records without it have conversations, or the fields of an instruction."""
    instruction_fields: tuple[str, ...] = ("instruction", "input", "output")
    """Names of the fields of an instruction, of its input, if there is one, and of the output."""
    learned_roles: tuple[str, ...] = (ASSISTANT,)
    """Roles whose turns are learned (assistant system)."""
    last_turn_alone: bool = False
    """Learn the last of these turns alone."""
    end_of_turn: tuple[str, ...] = ()
    """Special tokens that end a turn for the model where the template writes no end: they are
    learned where one of them follows a turn, and the first is added to a last turn (<|user|>)."""
    mask: Literal["loss_mask", "labels"] = "loss_mask"
    """The column that says what is learned: 1 or 0 (loss_mask), or the token itself or -100
    (labels)."""

    def __post_init__(self) -> None:
        """Check each option.

        Raises:
            UserError: rows cannot be built with a value.
        """
        super().__post_init__()
        for name in ("learned_roles", "instruction_fields", "end_of_turn"):
            object.__setattr__(self, name, (*getattr(self, name),))  # JSON has lists
        for name, check, cure in _CHECKS:
            value = getattr(self, name)
            try:
                is_sound = check(value)
            except (TypeError, ValueError):
                is_sound = False
            if not is_sound:
                raise UserError(option(name, value), "its value is none of its kind", cure)

    @property
    def layout(self) -> Layout:
        """The names of the fields of a record."""
        return Layout(self.messages_field, self.instruction_fields)

    @classmethod
    def reads_fields(cls, names: Sequence[str]) -> bool:
        """Return whether records with these fields look like conversations."""
        return Layout().holds_conversations(names)

    @classmethod
    def tokenizer_texts(cls) -> TextMaker | None:
        """Return what makes the texts of a tokenizer's training of conversations."""
        return Conversations(Layout())

    def complete(self, tokenizer: TokenizerFile, read_bytes: Callable[[str], bytes | None]) -> Self:
        """Return the options with the text of the template.

        Raises:
            UserError: there is none, or it cannot be used.
        """
        text = self.chat_template
        if text is None and (text := tokenizer.chat_template) is None:
            cause = f"the tokenizer {tokenizer.name} has no chat template beside it"
            cure = "Give the file of one, or a folder that has tokenizer_config.json, too"
            raise UserError(option("chat_template"), cause, cure)
        if self.chat_template is not None and "{" not in text:  # a path: manifests have its text
            content = read_bytes(text)
            if content is None:
                refused = option("chat_template", text)
                raise UserError(refused, "there is no such file", "Correct the path")
            text = content.decode("utf-8-sig", errors="replace")
        if "\ufffd" in text:  # which stands for bytes that could not be decoded
            cause = "it is not UTF-8, or has the character U+FFFD"
            raise UserError(option("chat_template"), cause, "Save it as UTF-8, without U+FFFD")
        if not RESERVED.isdisjoint(text):
            cause = "it has noncharacters of Unicode (U+FDD0 to U+FDEF)"
            raise UserError(option("chat_template"), cause, "Remove them")
        special = special_names(json.loads(tokenizer.json))
        if not {*self.end_of_turn} <= {*special}:
            cause = f"one of them is no special token of {tokenizer.name}"
            cure = f"Give one or more of {', '.join(special[:9])}"
            raise UserError(option("end_of_turn", self.end_of_turn), cause, cure)
        completed = replace(self, chat_template=text)
        completed.bind(tokenizer).try_template(tokenizer.json)
        return completed

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
        described = json.loads(tokenizer_json)
        texts = {token["id"]: token["content"] for token in added_tokens(described)}
        ids = ((role, self.special.find(role)) for role in (*ROLES, "bos"))
        tokens = {f"{role}_token": texts[token] for role, token in ids if token in texts}
        settings = {
            "templates": divide_templates(options.chat_template),
            "date": options.chat_template_date,
            "values": {**tokens, **json.loads(options.chat_template_kwargs or "{}")},
            "special": special_names(described),
            "layout": options.layout,
            "roles": options.learned_roles,
            "last_alone": options.last_turn_alone,
            "end_of_turn": options.end_of_turn,
        }
        return Conversations(options.layout, json.dumps(settings))

    def try_template(self, tokenizer_json: str) -> None:
        """Refuse a template that is none, or that does not come to an end.

        Raises:
            UserError: it cannot be used.
        """
        maker = self.text_maker(tokenizer_json)
        assert isinstance(maker, Conversations)  # noqa: S101  there is a template
        process = rendering_process(maker.settings)
        cause = process.error
        if not cause:
            try:
                maker({self.options.messages_field: _GREETING})
            except UnreadableError as error:  # the template may want other conversations
                cause = error.detail if process.has_ended else None
        if cause:
            cause = f"it is no chat template that can be used: {cause}"
            raise UserError(option("chat_template"), cause, "Give another one")

    def text_cuts(self, seed: int) -> Cuts | None:  # noqa: ARG002  nothing is drawn
        """Return the marks in texts, of which every second piece is learned."""
        return TextMarks()

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        """The columns of the data set."""
        length = self.options.max_seq_length
        meaning = "the tokens of conversations, one behind the other"
        tokens = token_column(self.token_dtype, meaning, length, pad_of_text(self.special))
        mask = Column(
            "loss_mask", "int8", "1 where a token is learned", length, role=Role.LEARNED, largest=1
        )
        if self.options.mask == "labels":
            meaning = "the token where it is learned, -100 elsewhere"
            bounds = _NOT_LEARNED, self.vocab_size - 1
            mask = Column("labels", "int32", meaning, length, bounds[0], Role.LEARNED, *bounds)
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
        learned = ragged.count_in_rows(values, np.not_equal, mask.pad)
        kept = len(values.flatten())
        return {
            "kept_tokens": kept,
            "trimmed_tokens": int(bounds[1] - bounds[0]) - kept,
            "learned_tokens": int(learned.sum()),
            "long_documents": documents.num_rows - examples.num_rows,
            "unlearned_documents": int(np.count_nonzero(learned == 0)),
        }

    def pack(self, rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Pack conversations into rows."""
        return pack_pieces(rows, self.options.max_seq_length)


@dataclass(frozen=True)
class Conversations:
    """Renders conversations (`corpusmill.corpus.document_options.TextMaker`).

    Attributes:
        layout: the names of the fields of a record.
        settings: what `corpusmill.objectives.chat_rendering.Renderer` is made of, in JSON; empty
            where there is no template yet, and all that is said is the text.
    """

    layout: Layout
    settings: str = ""

    @property
    def fields(self) -> tuple[str, ...]:
        """The fields of which a conversation is made."""
        return self.layout.fields

    def __call__(self, record: Mapping[str, Any], others: tuple[str, ...] = ()) -> str:
        """Return a conversation's text, with marks around what is learned.

        Raises:
            UnreadableError: the record is no conversation, or the template refuses it.
        """
        if self.settings:
            return rendering_process(self.settings).render(record, others)
        try:
            return join_texts(read_conversation(record, self.layout, {"tool_calls"}.__contains__))
        except RefusedRecordError as error:
            raise UnreadableError(error.reason, error.detail) from None

    def explain_lack(self, names: Sequence[str]) -> tuple[str, str] | None:
        """Return why a record with these fields has no text, and the cure; None if it may have."""
        if self.layout.holds_conversations(names):
            return None
        fields = (
            f"{self.layout.messages}, conversations, or {' and '.join(self.layout.instruction)}"
        )
        cause = f"its records have no conversation in {fields}; their fields are "
        cure = f"Name them with {option('messages_field')} or {option('instruction_fields')}"
        proposal = propose_fields(names)
        return cause, f"Give {option(*proposal)}" if proposal else cure


class RenderingProcess:
    """A process that renders records until one of them ends it, or nobody asks any more.

    Args:
        settings: what `corpusmill.objectives.chat_rendering.Renderer` is made of, in JSON.

    Attributes:
        error: why the templates cannot be used; None if they can.
    """

    def __init__(self, settings: str) -> None:
        # First this package, whatever has come before it on the path since it was imported.
        package = str(Path(__file__).parents[2])
        paths = [package, *(os.path.abspath(path) for path in sys.path)]  # noqa: PTH100
        self._lock = threading.Lock()
        self._process = subprocess.Popen(  # noqa: S603  our own module
            [sys.executable, "-m", _MODULE],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        )
        self.error = self._ask(settings).get("detail")

    @property
    def has_ended(self) -> bool:
        """Whether it has to be made anew."""
        return self._process.poll() is not None

    def render(self, record: Mapping[str, Any], others: tuple[str, ...]) -> str:
        """Return the text of a record, as `Renderer` does.

        Raises:
            UnreadableError: it is no conversation, or the template refuses it, takes too long or
                needs too much memory.
        """
        try:
            question = json.dumps([record, others], ensure_ascii=False)
        except (RecursionError, TypeError, ValueError) as error:
            raise UnreadableError("not-a-conversation", in_one_line(error)) from None
        answer = self._ask(question)
        if "text" not in answer:
            raise UnreadableError(answer["reason"], printable(answer["detail"]))
        return answer["text"]

    def _ask(self, question: str) -> dict[str, str]:
        """Return what the process answers, or how it ended."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None and stdout is not None  # noqa: S101, PT018  they are pipes
        with self._lock:
            try:
                stdin.write(question.encode(errors="surrogatepass") + b"\n")
                stdin.flush()
                line = stdout.readline()
            except (BrokenPipeError, ValueError):  # it has ended, in another thread as well
                line = b""
        if line.endswith(b"\n"):
            answer: dict[str, str] = json.loads(line.decode(errors="surrogatepass"))
            return answer
        self._process.communicate()
        status = self._process.returncode
        end = _ENDS.get(status, f"the process that renders it ended with status {status}")
        return {"reason": "template-refuses", "detail": end}

    def __del__(self) -> None:
        if process := getattr(self, "_process", None):
            process.communicate()


@lru_cache(maxsize=2)
def _start(settings: str, _: int) -> RenderingProcess:
    return RenderingProcess(settings)


def rendering_process(settings: str) -> RenderingProcess:
    """Return the process of some settings, which is started anew where it has ended."""
    process = _start(settings, os.getpid())  # forks share no pipes
    if process.has_ended:
        _start.cache_clear()
        process = _start(settings, os.getpid())
    return process

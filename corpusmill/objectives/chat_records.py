"""Records of conversations, in the layouts that people write, as messages of a chat template.

Messages are those of OpenAI (role and content), of ShareGPT (from and value), or of Alpaca
(an instruction, an input and an output in fields of the record). docs/how-to/
conversations-from-other-tools.md lists what becomes of each key. Only the standard library is
imported, as the process that renders templates is started often.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

ASSISTANT = "assistant"
# The roles that templates know.
USUAL_ROLES = frozenset({"system", "developer", "user", ASSISTANT, "tool"})
_ALIASES = {
    "human": "user", "prompter": "user", "gpt": ASSISTANT, "chatgpt": ASSISTANT, "bard": ASSISTANT,
    "bing": ASSISTANT, "bot": ASSISTANT, "model": ASSISTANT, "function_call": ASSISTANT,
    "observation": "tool", "function_response": "tool", "tool_response": "tool", "function": "tool",
}  # fmt: skip
# Keys whose values need not stand in a text.
IDENTIFIERS = frozenset({"role", "id", "tool_call_id", "index", "type"})
# Keys of a message that say whether its turn is learned: of OpenAI, axolotl and LLaMA-Factory.
_LEARNING = frozenset({"weight", "train", "training", "loss"})
_NOT_LEARNED = (0, "0", "0.0", "false", "False")
# Names that a message proposes to map, where a file has fields of other names.
_LISTS = {
    "conversation", "dialog", "dialogue", "dialogs", "chat", "turns", "data", "items", "history",
    "message", "msgs", "messages", "conversations",
}  # fmt: skip
_QUESTIONS = ("instruction", "prompt", "question", "query", "problem", "user")
_INPUTS = ("input", "context")
_ANSWERS = ("output", "response", "answer", "completion", "solution", "target", "chosen", ASSISTANT)


class RefusedRecordError(Exception):
    """A record that is no conversation, or that its template refuses.

    Args:
        reason: that of the reject, "not-a-conversation" or "template-refuses".
        detail: what is wrong with it.
    """

    def __init__(self, reason: str, detail: str) -> None:
        self.reason, self.detail = reason, detail
        super().__init__(reason, detail)


class Layout(NamedTuple):
    """The names of the fields of a corpus.

    Attributes:
        messages: of the messages.
        instruction: of Alpaca's instruction, its input, if there is one, and its output.
    """

    messages: str = "messages"
    instruction: tuple[str, ...] = ("instruction", "input", "output")

    @property
    def fields(self) -> tuple[str, ...]:
        """The names of all fields that are read."""
        others = "conversations", "system", "tools", "functions", "history", "chat_template_kwargs"
        return tuple(dict.fromkeys((self.messages, *self.instruction, *others)))

    def holds_conversations(self, names: Iterable[str]) -> bool:
        """Return whether records with these fields look like conversations."""
        names = {*names}
        ends = {self.instruction[0], self.instruction[-1]}
        return not names.isdisjoint({self.messages, "conversations"}) or ends <= names


class Conversation(NamedTuple):
    """A conversation.

    Attributes:
        messages: each with a role, and without keys that are null.
        learned: for each message, whether the data say that it is learned; None if they do not.
        tools: the schemas of tools; None if the record has none.
        template_values: further values for the template.
        others: fields of the record that became no message, by name.
    """

    messages: list[dict[str, Any]]
    learned: list[bool | None]
    tools: Any
    template_values: dict[str, Any]
    others: dict[str, Any]


def propose_fields(names: Sequence[str]) -> tuple[str, Any] | None:
    """Return the option that maps fields of other names to the closest layout, and its value.

    Example:
        instruction, context and response give
        ("instruction_fields", ("instruction", "context", "response")).
    """
    lists = [name for name in names if name.lower() in _LISTS]
    if lists:
        return "messages_field", lists[0]
    first, middle, last = (
        [name for usual in group for name in names if name.lower() == usual][:1]
        for group in (_QUESTIONS, _INPUTS, _ANSWERS)
    )
    fields = (*first, *middle, *last)
    return ("instruction_fields", fields) if last and len(fields) > 1 else None


def read_conversation(
    record: Mapping[str, Any],
    layout: Layout,
    is_known: Callable[[str], bool],
    parses_arguments: bool = True,
) -> Conversation:
    """Return the conversation of a record.

    Args:
        record: fields by name, in JSON's types.
        layout: the names of its fields.
        is_known: whether the template looks for a name.
        parses_arguments: whether arguments of calls that are a text in JSON are parsed.

    Raises:
        RefusedRecordError: it is none.

    Example:
        {"conversations": [{"from": "human", "value": "Hi"}]} gives the message
        {"role": "user", "content": "Hi"}.
    """
    record = {name: value for name, value in record.items() if value is not None}
    name = next((name for name in (layout.messages, "conversations") if record.get(name)), "")
    turns = _parse(record.pop(name, None))
    if not name:
        turns = [*_read_instruction(record, layout.instruction)]
    if not isinstance(turns, list) or not turns:
        shown = f"{layout.messages} nor conversations nor {' and '.join(layout.instruction)}"
        raise RefusedRecordError("not-a-conversation", f"it has neither {shown}")
    learned = [*map(_is_learned, turns)]
    messages = [_read_message(turn, is_known) for turn in turns]
    for message in messages if parses_arguments else ():
        if isinstance(calls := message.get("tool_calls"), list):
            message["tool_calls"] = [*map(_parse_arguments, calls)]
    system = record.get("system")
    if isinstance(system, str) and system and messages[0]["role"] not in {"system", "developer"}:
        messages.insert(0, {"role": "system", "content": record.pop("system")})
        learned.insert(0, None)
    template_values = _parse(record.pop("chat_template_kwargs", None)) or {}
    if not isinstance(template_values, dict):
        raise RefusedRecordError("not-a-conversation", "chat_template_kwargs is no object")
    tools = _read_tools(record)
    return Conversation(messages, learned, tools, template_values, record)


def join_texts(conversation: Conversation) -> str:
    """Return all that is said in a conversation, one text below the other, without a template."""
    messages = (message.items() for message in conversation.messages)
    said = (value for items in messages for key, value in items if key not in IDENTIFIERS)
    values = (conversation.tools, *said)
    parts = (part for value in values for part in (value if isinstance(value, list) else [value]))
    texts = (part.get("text", part) if isinstance(part, dict) else part for part in parts)
    return "\n".join(
        text if isinstance(text, str) else json.dumps(text, ensure_ascii=False)
        for text in texts
        if text
    )


def list_texts(value: Any) -> Iterator[str]:
    """Yield the texts in a value, but no identifiers."""
    match value:
        case str():
            yield value
        case list():
            for inner in value:
                yield from list_texts(inner)
        case dict():
            for key, inner in value.items():
                if key not in IDENTIFIERS:
                    yield from list_texts(inner)


def _read_instruction(record: dict[str, Any], names: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Yield the turns of Alpaca's fields, which leave the record, and of those before them.

    Where the fields hold messages, as TRL's prompt and completion do, the answer alone is learned.
    """
    *questions, answer = (record.get(name) for name in names)
    if isinstance(questions[0], list) and isinstance(answer, list):
        del record[names[0]], record[names[-1]]
        for turn in questions[0]:
            yield {**turn, "train": False} if isinstance(turn, dict) else turn
        yield from answer
    elif isinstance(answer, str):
        for pair in _parse(record.pop("history", None)) or []:
            if not (isinstance(pair, list) and len(pair) == 2):
                raise RefusedRecordError("not-a-conversation", "history is no list of pairs")
            yield from _ask(*pair)
        for name in names:
            record.pop(name, None)
        parts = (part for part in questions if isinstance(part, str) and part)
        yield from _ask("\n\n".join(parts), answer)


def _ask(question: Any, answer: Any) -> Iterator[dict[str, Any]]:
    yield {"role": "user", "content": question}
    yield {"role": ASSISTANT, "content": answer}


def _read_tools(record: dict[str, Any]) -> Any:
    """Return the schemas of tools, which the record keeps, each of them an object."""
    tools = _parse(record.get("tools"))
    name = "tools"
    if tools is None and (functions := _parse(record.get("functions"))):
        name = "functions"
        tools = [{"type": "function", "function": function} for function in functions]
    tools = [tools] if isinstance(tools, dict) else tools
    tools = [*map(_parse, tools)] if isinstance(tools, list) else tools
    if tools is not None and not (
        isinstance(tools, list) and all(isinstance(tool, dict) for tool in tools)
    ):
        raise RefusedRecordError("not-a-conversation", f"{name} is no list of objects")
    if tools is not None:
        record[name] = tools
    return tools


def _is_learned(turn: Any) -> bool | None:
    """Return what the data say of a turn; that of a person is learned if they say True."""
    if not isinstance(turn, dict) or _LEARNING.isdisjoint(turn):
        return None
    values = [turn[key] for key in _LEARNING if turn.get(key) is not None]
    if any(value in _NOT_LEARNED for value in values):
        return False
    return True if any(value is True for value in values) else None


def _read_message(turn: Any, is_known: Callable[[str], bool]) -> dict[str, Any]:
    turn = _parse(turn) if isinstance(turn, str) and turn.startswith("{") else turn
    if not isinstance(turn, dict):
        raise RefusedRecordError("not-a-conversation", "a message is no object")
    # transformers leaves out what is null, too.
    message = {
        key: value
        for key, value in turn.items()
        if value is not None and not (key in _LEARNING and value in (*_NOT_LEARNED, 1))
    }
    is_share_gpt = "role" not in message and "from" in message
    if is_share_gpt:
        names = {"from": "role", "value": "content"}
        message = {names.get(key, key): value for key, value in message.items()}
    role = message.get("role")
    if not isinstance(role, str):
        raise RefusedRecordError("not-a-conversation", "a message has no role")
    if len(message) == 1:
        raise RefusedRecordError("not-a-conversation", "a message has no content")
    if not isinstance(message.get("content", ""), str | list | dict):
        raise RefusedRecordError("not-a-conversation", "the content of a message is no text")
    if is_share_gpt or not (role in USUAL_ROLES or is_known(role)):
        message["role"] = _ALIASES.get(role, role)
        if role == "function_call" and is_known("tool_calls"):
            message = _read_call(message, "content")
    if "function_call" in message and is_known("tool_calls") and not is_known("function_call"):
        message = _read_call(message, "function_call")
    message |= {key: _parse(message[key]) for key in ("tool_calls",) if key in message}
    return message


def _read_call(message: dict[str, Any], key: str) -> dict[str, Any]:
    """Move a call that stands under another key, if it is one, to tool_calls."""
    call = _try_to_parse(message[key])
    calls = call if isinstance(call, list) else [call]
    if not all(isinstance(call, dict) and "name" in call for call in calls):
        return message
    others = {name: value for name, value in message.items() if name != key}
    calls = [{"type": "function", "function": call} for call in calls]
    return {"role": ASSISTANT, "content": "", **others, "tool_calls": calls}


def _parse_arguments(call: Any) -> Any:
    """Return a call whose arguments, a text in JSON as OpenAI has them, are what that holds."""
    if not isinstance(call, dict):
        return call
    if isinstance(call.get("function"), dict):
        return {**call, "function": _parse_arguments(call["function"])}
    arguments = _try_to_parse(call.get("arguments"))
    return {**call, "arguments": arguments} if isinstance(arguments, dict | list) else call


def _try_to_parse(value: Any) -> Any:
    try:
        return _parse(value)
    except RefusedRecordError:
        return value


def _parse(value: Any) -> Any:
    """Return what a text in JSON holds, and other values as they are; None for an empty text."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value) if value.strip() else None
    except ValueError as error:
        raise RefusedRecordError("not-a-conversation", f"a field is not JSON ({error})") from None

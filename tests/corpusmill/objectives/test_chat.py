"""Conversations: their text, what is learned of it, and their rows."""

import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

from corpusmill.corpus.batches import UnreadableError
from corpusmill.errors import UserError
from corpusmill.limits import LIMITS
from corpusmill.objectives.chat import ChatOptions, Conversations, read_messages
from corpusmill.objectives.objective import Repeat
from corpusmill.tokenization.encoding import encode_documents
from corpusmill.tokenization.sentence_tokenizer import SentenceTokenizer
from corpusmill.tokenization.text_cuts import APART, BEGIN, END, remove_marks
from tests.corpusmill.objectives.reference_chat import encode, pack_lengths
from tests.tools.chat_data import draw_conversations, load_tokenizer, write_tokenizer
from tests.tools.chat_families import FAMILIES, MESSAGES, SYSTEM, Family, strip_thinking

CHATML = FAMILIES["chatml"]


def renderer(family: Family, template: str | None = None, **options: Any) -> Conversations:
    names = ("bos_token", "eos_token")
    tokens = tuple(pair for pair in zip(names, family.special, strict=False) if pair[1])
    special = sorted({*filter(None, family.special)}, key=len, reverse=True)
    return Conversations(template or family.template, tokens, tuple(special), **options)


def learned_of(text: str) -> tuple[str, ...]:
    return tuple(re.findall(f"{BEGIN}(.*?){END}", text, re.DOTALL))


@pytest.mark.parametrize("name", FAMILIES)
def test_families_learn_what_the_model_writes(name: str) -> None:
    family = FAMILIES[name]
    text = renderer(family)({"messages": family.messages})
    assert remove_marks(text) == family.text
    assert learned_of(text) == family.learned
    last = renderer(family, last_alone=True)({"messages": family.messages})
    assert learned_of(last) == family.learned[-1:]


def test_turns_of_other_roles_are_learned_with_their_headers() -> None:
    make = renderer(CHATML, roles=("assistant", "system"))
    system = "<|im_start|>system\nBe brief.<|im_end|>"
    assert learned_of(make({"messages": CHATML.messages})) == (system, *CHATML.learned)
    bos = renderer(FAMILIES["internlm"], roles=("system",))
    # The token that begins a text is no part of the first turn.
    assert learned_of(bos({"messages": CHATML.messages})) == (system,)


def test_marks_are_compared_with_prefixes() -> None:
    marked = FAMILIES["tulu"].template
    without_end = marked.replace("message['content'] + eos_token }}", "message['content'] }}")
    without_end = without_end.replace("{% endgeneration %}", "{% endgeneration %}{{ eos_token }}")
    with pytest.raises(UserError) as error:
        renderer(FAMILIES["tulu"], without_end)({"messages": FAMILIES["tulu"].messages})
    # Both are shown.
    assert "{The keeper.}<|endoftext|>" in str(error.value)
    assert "{The keeper.<|endoftext|>}" in str(error.value)
    nested = marked.replace(
        "{% generation %}", "{% generation %}{% generation %}{% endgeneration %}"
    )
    with pytest.raises(UserError, match="within another one"):
        renderer(FAMILIES["tulu"], nested)({"messages": MESSAGES})


def test_where_prefixes_do_not_hold_marks_alone_are_taken() -> None:
    messages = [dict(message) for message in MESSAGES]
    messages[1]["content"] = messages[3]["content"] = "<think>hm</think>\nYes."
    marks = "{% generation %}", "{% endgeneration %}"
    text = renderer(CHATML, strip_thinking(*marks))({"messages": messages})
    assert learned_of(text) == ("Yes.<|im_end|>", "<think>hm</think>\nYes.<|im_end|>")
    with pytest.raises(UserError, match=r"cannot be told.*Who keeps the light"):
        renderer(CHATML, strip_thinking("", ""))({"messages": messages})
    with pytest.raises(UserError, match="cannot be told"):
        renderer(CHATML, strip_thinking(*marks), roles=("user",))({"messages": messages})


def test_people_cannot_write_special_tokens() -> None:
    content = "a <|im_end|> b"
    text = renderer(CHATML)({"messages": [{"role": "user", "content": content}, MESSAGES[1]]})
    assert f"a <{APART}|im_end|> b<|im_end|>" in text
    assert learned_of(text) == ("The keeper.<|im_end|>",)
    parts = [{"type": "text", "text": content}]
    template = "{% for m in messages %}{{ m.content[0].text }}{% endfor %}"
    text = renderer(CHATML, template)({"messages": [{"role": "user", "content": parts}]})
    assert text[1:] == f"a <{APART}|im_end|> b"


@pytest.mark.parametrize(
    ("record", "messages"),
    [
        ({"messages": MESSAGES, "conversations": None}, MESSAGES),
        (
            {"conversations": [{"from": "human", "value": "a"}, {"from": "gpt", "value": "b"}]},
            [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}],
        ),
        ({"messages": None, "conversations": MESSAGES, "system": "Be brief."}, [SYSTEM, *MESSAGES]),
        ({"messages": [SYSTEM, *MESSAGES], "system": "Other."}, [SYSTEM, *MESSAGES]),
        (
            {"instruction": "Add.", "input": "1 2", "output": "3"},
            [{"role": "user", "content": "Add.\n\n1 2"}, {"role": "assistant", "content": "3"}],
        ),
        (
            {"instruction": "Add.", "input": "", "output": ""},
            [{"role": "user", "content": "Add."}, {"role": "assistant", "content": ""}],
        ),
        ({"messages": '[{"role": "user", "content": "a"}]'}, [{"role": "user", "content": "a"}]),
        (
            {"messages": [{"role": "user", "content": "a", "name": None, "weight": 1}]},
            [{"role": "user", "content": "a", "weight": 1}],
        ),
    ],
)
def test_records_in_all_forms(record: dict[str, Any], messages: list[dict[str, Any]]) -> None:
    assert read_messages(record, "messages") == messages


@pytest.mark.parametrize(
    "record",
    [
        {}, {"messages": []}, {"messages": "no JSON"}, {"messages": ["a"]}, {"instruction": "a"},
        {"messages": [{"role": "user"}]}, {"messages": [{"content": "a"}]}, {"messages": 5},
        {"messages": [{"role": "user", "content": 5}]}, {"messages": [{"role": 5, "content": "a"}]},
        {"messages": [{"role": "user", "content": "a\ufdd1"}]},
    ],
)  # fmt: skip
def test_other_records_are_refused(record: dict[str, Any]) -> None:
    with pytest.raises(UnreadableError) as error:
        renderer(CHATML)(record)
    assert error.value.reason == "not-a-conversation"


def test_what_the_template_refuses_is_refused() -> None:
    for family, messages in (("gemma", [SYSTEM, *MESSAGES]), ("mistral", MESSAGES[1:])):
        with pytest.raises(UnreadableError) as error:
            renderer(FAMILIES[family])({"messages": messages})
        assert error.value.reason == "template-refuses"


Pieces = list[tuple[tuple[int, ...], tuple[int, ...]]]


def build_rows(
    folder: Path, family: Family, records: list[dict[str, Any]], batch_rows: int, **options: Any
) -> tuple[list[dict[str, Any]], dict[str, int], Pieces]:
    """The packed rows of conversations, what is counted, and the reference's pieces."""
    tokenizer = load_tokenizer(write_tokenizer(folder, family))
    chosen = ChatOptions(**options).complete(tokenizer, lambda _: None)
    objective = chosen.bind(tokenizer)
    maker = objective.text_maker(tokenizer.json)
    assert maker
    texts = [[maker(record)] for record in records]
    encoder = SentenceTokenizer(tokenizer.json, tokenizer.token_dtype)
    built, counts = [], dict.fromkeys(("kept_tokens", "trimmed_tokens", "long_documents"), 0)
    for first in range(0, len(texts), batch_rows):
        some = texts[first : first + batch_rows]
        ids = pa.array(np.arange(first, first + len(some)), pa.uint64())
        batch = pa.RecordBatch.from_arrays(
            [ids, pa.array(some, pa.list_(pa.string()))], ["document", "sentences"]
        )
        documents = encode_documents(encoder, batch, objective.text_cuts(0)).documents
        rows = objective.build(documents, Repeat(0, None, np.zeros(len(some), np.uint8), 0))
        built.append(rows)
        for name, number in objective.count(documents, rows).items():
            counts[name] = counts.get(name, 0) + number
    packed = list(objective.pack(iter(built), LIMITS.files))
    special = [token for token in family.special if token]
    tokens = dict(maker.tokens)  # type: ignore[attr-defined]
    library = Tokenizer.from_file(str(folder / "tokenizer.json"))
    pieces = [
        encode(family.template, record["messages"], library, special, tokens) for record in records
    ]
    return [row for batch in packed for row in batch.to_pylist()], counts, pieces


def cut_row(row: dict[str, Any], mask: str) -> Pieces:
    ends = row["cu_seqlens"]
    return [
        (tuple(row["input_ids"][begin:end]), tuple(row[mask][begin:end]))
        for begin, end in pairwise(ends)
    ]


@pytest.mark.parametrize("name", ["chatml", "llama-2", "llama-3", "vicuna", "tulu", "falcon", "yi"])
@pytest.mark.parametrize("length", [96, 512])
def test_rows_are_those_of_the_reference(tmp_path: Path, name: str, length: int) -> None:
    family, records = FAMILIES[name], draw_conversations(60, seed=length)
    rows, counts, pieces = build_rows(tmp_path, family, records, 40, max_seq_length=length)
    fitting = [piece for piece in pieces if len(piece[0]) <= length]
    assert sorted(part for row in rows for part in cut_row(row, "loss_mask")) == sorted(fitting)
    sizes = [len(ids) for ids, _ in fitting]
    assert sorted(len(row["input_ids"]) for row in rows) == pack_lengths(sizes, length)
    assert counts["long_documents"] == len(pieces) - len(fitting)
    assert counts["kept_tokens"] == sum(sizes)
    assert counts["trimmed_tokens"] == sum(len(ids) for ids, _ in pieces) - sum(sizes)
    assert counts["learned_tokens"] == sum(sum(mask) for _, mask in fitting)
    assert length > 96 or counts["long_documents"] > 0


def test_labels_are_tokens_or_nothing(tmp_path: Path) -> None:
    records = draw_conversations(30)
    rows, _, _ = build_rows(tmp_path, CHATML, records, 7, max_seq_length=256, mask="labels")
    masks, _, _ = build_rows(tmp_path, CHATML, records, 30, max_seq_length=256)
    for row, other in zip(rows, masks, strict=True):
        pairs = zip(other["input_ids"], other["loss_mask"], strict=True)
        assert row["labels"] == [token if learned else -100 for token, learned in pairs]


def test_conversations_of_which_nothing_is_learned_are_counted(tmp_path: Path) -> None:
    records: list[dict[str, Any]] = [{"messages": MESSAGES[:1]}, {"messages": MESSAGES}]
    _, counts, _ = build_rows(tmp_path, CHATML, records, 9)
    assert counts["unlearned_documents"] == 1


@settings(max_examples=25, deadline=None)
@given(contents=st.lists(st.text(max_size=20), min_size=2, max_size=6))
def test_any_content_is_learned_as_it_is_written(contents: list[str]) -> None:
    roles = ("user", "assistant")
    messages = [{"role": roles[n % 2], "content": text} for n, text in enumerate(contents)]
    try:
        text = renderer(CHATML)({"messages": messages})
    except UnreadableError:
        assert any("\ufdd0" <= letter <= "\ufdef" for letter in "".join(contents))
        return
    expected = tuple(f"{content}<|im_end|>" for content in contents[1::2])
    assert tuple(map(remove_marks, learned_of(text))) == expected


def test_templates_are_found_and_refused(tmp_path: Path) -> None:
    folder = write_tokenizer(tmp_path / "a", CHATML)
    tokenizer = load_tokenizer(folder)
    assert tokenizer.chat_template == CHATML.template
    (folder / "chat_template.jinja").write_text("{{ 1 }}", encoding="utf-8")
    assert load_tokenizer(folder).chat_template == "{{ 1 }}"
    named = '{"chat_template": [{"name": "a", "template": "b"}, '
    named += '{"name": "default", "template": "d"}]}'
    (folder / "chat_template.jinja").unlink()
    (folder / "tokenizer_config.json").write_text(named, encoding="utf-8")
    assert load_tokenizer(folder).chat_template == "d"
    (folder / "tokenizer_config.json").write_text("{}", encoding="utf-8")
    lacking = load_tokenizer(folder)
    with pytest.raises(UserError, match="no chat template beside it"):
        ChatOptions().complete(lacking, lambda _: None)
    with pytest.raises(UserError, match="no such file"):
        ChatOptions(chat_template="f.jinja").complete(lacking, lambda _: None)
    read = ChatOptions(chat_template="f.jinja").complete(lacking, lambda _: b"{{ 1 }}")
    assert read.chat_template == "{{ 1 }}"
    assert read.complete(tokenizer, lambda _: None) == read
    marked = ChatOptions(chat_template="f.jinja").complete(
        lacking, lambda _: b"\xef\xbb\xbf{{ 1 }}"
    )
    assert marked == read
    for content in ("{{ 1 }}".encode("utf-16"), "\u00e9 {{ 1 }}".encode("latin-1")):
        with pytest.raises(UserError, match="not UTF-8"):
            ChatOptions(chat_template="f.jinja").complete(lacking, {"f.jinja": content}.get)
        (folder / "chat_template.jinja").write_bytes(content)
        with pytest.raises(UserError, match="not UTF-8"):
            ChatOptions().complete(load_tokenizer(folder), lambda _: None)
    with pytest.raises(UserError, match="noncharacters"):
        ChatOptions(chat_template="{{ '\ufdd1' }}").complete(lacking, lambda _: None)
    with pytest.raises(UserError, match="no chat template that can be used"):
        ChatOptions(chat_template="{% for %}").complete(lacking, lambda _: None)

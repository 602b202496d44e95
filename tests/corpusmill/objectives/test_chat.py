"""Conversations: their text, what is learned of it, and their rows."""

import json
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
from corpusmill.objectives.chat import ChatOptions, Conversations
from corpusmill.objectives.chat_records import Layout, RefusedRecordError, read_conversation
from corpusmill.objectives.chat_rendering import Renderer
from corpusmill.objectives.chat_templates import ChatTemplate, Rendering
from corpusmill.objectives.objective import Repeat
from corpusmill.tokenization.encoding import encode_documents
from corpusmill.tokenization.sentence_tokenizer import SentenceTokenizer
from corpusmill.tokenization.text_cuts import APART, BEGIN, END, read_counts, remove_marks
from corpusmill.tokenization.tokenizer_file import divide_templates
from tests.corpusmill.objectives.reference_chat import encode
from tests.corpusmill.objectives.reference_gpt import best_fit
from tests.tools.chat_data import (
    draw_conversations,
    load_tokenizer,
    renderer_settings,
    write_tokenizer,
)
from tests.tools.chat_families import FAMILIES, MESSAGES, SYSTEM, Family, strip_thinking

CHATML = FAMILIES["chatml"]
LLAMA = FAMILIES["llama-3"]
ENDLESS = "{% for a in range(9999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"
Record = dict[str, Any]


def renderer(family: Family = CHATML, template: str | None = None, **changes: Any) -> Renderer:
    settings = renderer_settings(template or family.template, family, **changes)
    return Renderer(**json.loads(settings))


def learned_of(text: str) -> tuple[str, ...]:
    return tuple(re.findall(f"{BEGIN}(.*?){END}", text, re.DOTALL))


def counts_of(text: str, prefix: str) -> dict[str, int]:
    counts, _ = read_counts(text)
    return {name.removeprefix(prefix): n for name, n in counts.items() if name.startswith(prefix)}


def ask(*contents: Any, **last: Any) -> list[Record]:
    """Messages of user and assistant in turn, the last of which has further keys."""
    roles = "user", "assistant"
    messages = [{"role": roles[n % 2], "content": text} for n, text in enumerate(contents)]
    messages[-1] |= last
    return messages


def test_families_learn_what_the_model_writes() -> None:
    for name, family in FAMILIES.items():
        text = renderer(family)({"messages": family.messages}, ())
        assert (remove_marks(text), learned_of(text)) == (family.text, family.learned), name
        last = renderer(family, last_alone=True)({"messages": family.messages}, ())
        assert learned_of(last) == family.learned[-1:], name


def test_turns_of_other_roles_are_learned_with_their_headers() -> None:
    roles = ["assistant", "system"]
    system = "<|im_start|>system\nBe brief.<|im_end|>"
    text = renderer(roles=roles)({"messages": CHATML.messages}, ())
    assert learned_of(text) == (system, *CHATML.learned)
    # The token that begins a text is no part of the first turn, and turns that touch are two.
    for family, end in ((FAMILIES["internlm"], "<|im_end|>"), (LLAMA, "<|eot_id|>")):
        text = renderer(family, roles=["system"])({"messages": family.messages}, ())
        assert [one.count(end) for one in learned_of(text)] == [1]
        all_roles = renderer(family, roles=["user", "assistant"], last_alone=True)
        assert learned_of(all_roles({"messages": family.messages}, ())) == family.learned[-1:]


def test_marks_are_learned_as_transformers_has_them() -> None:
    marked = FAMILIES["tulu"].template
    for mark, learned in (
        ("{% generation %}", ("The keeper.<|endoftext|>", "He as well.<|endoftext|>")),
        ("{% generation %}{{ '>' }}", (">The keeper.<|endoftext|>", ">He as well.<|endoftext|>")),
    ):
        template = marked.replace("{% generation %}", mark)
        text = renderer(FAMILIES["tulu"], template)({"messages": MESSAGES}, ())
        assert learned_of(text) == learned
    without_end = marked.replace("content'] + eos_token }}{% endgen", "content'] }}{% endgen")
    without_end = without_end.replace("{% endgeneration %}", "{% endgeneration %}{{ eos_token }}")
    text = renderer(FAMILIES["tulu"], without_end)({"messages": MESSAGES}, ())
    assert learned_of(text) == ("The keeper.", "He as well.")
    assert counts_of(text, "open_turns.") == {"<|endoftext|>": 2}


def test_thoughts_of_earlier_turns_may_be_left_out() -> None:
    messages = ask("a", "<think>hm</think>\nYes.", "b", "<think>ah</think>\nNo.")
    for marks in (("{% generation %}", "{% endgeneration %}"), ("", "")):
        text = renderer(CHATML, strip_thinking(*marks))({"messages": messages}, ())
        assert learned_of(text) == ("Yes.<|im_end|>", "<think>ah</think>\nNo.<|im_end|>")
        assert counts_of(text, "unread.") == {"messages.content": 1}


def test_prompts_that_do_not_stand_in_the_text_are_looked_for() -> None:
    for messages, learned in (
        (ask("a", "b")[1:], ("b",)),  # a greeting
        ([*ask("a", "b"), *ask("a", "c")[1:]], ("b", "c")),
        ([*ask("a", "b"), {"role": "tool", "content": "t"}, *ask("a", "c")[1:]], ("b", "c")),
    ):
        for name, end in (("chatml", "<|im_end|>"), ("smollm", "<|im_end|>"), ("vicuna", "</s>")):
            if name == "chatml" or messages[-1] in messages[:2]:
                text = renderer(FAMILIES[name])({"messages": messages}, ())
                assert tuple(one.strip() for one in learned_of(text)) == tuple(
                    one + end for one in learned
                ), name
    # What is asked in TRL's prompt is not learned.
    record = {"instruction": ask("a", "b", "c"), "output": ask("a", "d")[1:]}
    text = renderer()(record, ())
    assert learned_of(text) == ("d<|im_end|>",)
    assert not counts_of(text, "unread.")
    # Where the prompt begins thoughts, turns without them are learned from their header on.
    thinks = CHATML.template.replace("assistant\\n' }}{% endif", "assistant\\n<think>' }}{% endif")
    text = renderer(CHATML, thinks)({"messages": ask("a", "<b>")}, ())
    assert learned_of(text) == ("<b><|im_end|>",)
    text = renderer(CHATML, thinks, special=["<|im_end|>"])({"messages": ask("a", "b")}, ())
    assert learned_of(text) == ("b<|im_end|>",)


def test_time_grows_with_the_number_of_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """A conversation is rendered once, and the messages before its first answer twice."""
    rendered, render = list[int](), ChatTemplate.render

    def listen(self: ChatTemplate, messages: list[Record], *rest: Any, **named: Any) -> Rendering:
        rendered.append(len(messages))
        return render(self, messages, *rest, **named)

    monkeypatch.setattr(ChatTemplate, "render", listen)
    text = renderer()({"messages": ask(*"ab" * 500)}, ())
    assert len(learned_of(text)) == 500
    assert rendered == [1000, 1, 1]


def test_people_cannot_write_special_tokens() -> None:
    content = "a <|im_end|> b"
    text = renderer()({"messages": [{"role": "user", "content": content}, MESSAGES[1]]}, ())
    assert f"a <{APART}|im_end|> b<|im_end|>" in text
    assert learned_of(text) == ("The keeper.<|im_end|>",)
    parts = "{% for m in messages %}{% for p in m.content %}{{ p.text | trim }}{% endfor %}"
    parts += "{{ m.name }}{% endfor %}"
    cut = ["a<|im_", "end|>"], ["a<|im_ ", " end|>"], ["a<", "|im_end|>"], ["a<|im_end|>"]
    for pieces in cut:
        messages = [{"role": "user", "content": [{"text": piece} for piece in pieces]}]
        text = renderer(CHATML, parts, roles=["user"])({"messages": messages}, ())
        _, body = read_counts(text)
        assert remove_marks(body) == "a<|im_end|>"
        assert "<|im_end|>" not in body
    messages = [{"role": "user", "content": [{"text": "<|im_"}], "name": "end|>"}]
    text = renderer(CHATML, parts, roles=["user"])({"messages": messages}, ())
    assert "<|im_end|>" not in read_counts(text)[1]


CALL = {"name": "area", "arguments": {"n": 3}}
CALLS = [{"type": "function", "function": CALL}]
TEXT_CALL = {"name": "area", "arguments": '{"n": 3}'}
TURNS = [{"from": "human", "value": "a"}, {"from": "gpt", "value": "b"}]


FUNCTION_CALL = {"from": "function_call", "value": json.dumps(CALL)}
FORMS: tuple[tuple[Record, list[Record]], ...] = (
    ({"messages": MESSAGES, "conversations": None}, MESSAGES),
    ({"conversations": TURNS}, ask("a", "b")),
    ({"messages": TURNS}, ask("a", "b")),
    ({"messages": None, "conversations": MESSAGES, "system": "Be brief."}, [SYSTEM, *MESSAGES]),
    ({"messages": [SYSTEM, *MESSAGES], "system": "Other."}, [SYSTEM, *MESSAGES]),
    ({"instruction": "Add.", "input": "1 2", "output": "3"}, ask("Add.\n\n1 2", "3")),
    ({"instruction": "Add.", "input": "", "output": ""}, ask("Add.", "")),
    ({"instruction": "[2, 1]", "output": "[1, 2]"}, ask("[2, 1]", "[1, 2]")),
    (
        {"instruction": "c", "output": "d", "history": [["a", "b"]], "system": "Be brief."},
        [SYSTEM, *ask("a", "b", "c", "d")],
    ),
    ({"messages": json.dumps(ask("a"))}, ask("a")),
    ({"messages": [json.dumps(ask("a")[0])]}, ask("a")),
    ({"messages": ask("a", name=None, weight=1)}, ask("a")),
    (
        {"messages": ask("a", None, tool_calls=[{"function": TEXT_CALL}])},
        [ask("a")[0], {"role": "assistant", "tool_calls": [{"function": CALL}]}],
    ),
    ({"messages": ask("a", tool_calls=json.dumps(CALLS))}, ask("a", tool_calls=CALLS)),
    ({"messages": ask("a", None, function_call=TEXT_CALL)}, ask("a", "", tool_calls=CALLS)),
    ({"conversations": [FUNCTION_CALL]}, ask("", "", tool_calls=CALLS)[1:]),
    ({"conversations": [{"from": "function_call", "value": "CALL"}]}, ask("", "CALL")[1:]),
    (
        {"conversations": [{"from": "observation", "value": "9"}]},
        [{"role": "tool", "content": "9"}],
    ),
    ({"messages": [{"role": "bard", "content": "b"}]}, ask("a", "b")[1:]),
    (
        {"instruction": ask("a", "b"), "output": ask("a", "c")[1:]},
        [*ask("a", "b"), *ask("", "c")[1:]],
    ),
    ({"messages": [{"role": "pirate", "content": "b"}]}, [{"role": "pirate", "content": "b"}]),
)


def test_records_in_all_forms() -> None:
    for record, messages in FORMS:
        read = read_conversation(record, Layout(), {"tool_calls", "pirate"}.__contains__)
        assert read.messages == messages, record


def test_fields_of_other_names_and_tools() -> None:
    layout = Layout("turns", ("question", "answer"))
    records: tuple[Record, ...] = ({"turns": TURNS}, {"question": "a", "answer": "b"})
    for record in records:
        assert read_conversation(record, layout, str.isalpha).messages == ask("a", "b")
    wrapped = [{"type": "function", "function": CALL}]
    for fields, tools in (
        ({"tools": json.dumps(wrapped)}, wrapped),
        ({"tools": [json.dumps(tool) for tool in wrapped]}, wrapped),
        ({"tools": wrapped[0]}, wrapped),
        ({"functions": [CALL]}, wrapped),
        ({"tools": []}, []),
        ({"tools": ""}, None),
        ({}, None),
    ):
        record = {"messages": MESSAGES, **fields}
        assert read_conversation(record, Layout(), str.isalpha).tools == tools


def test_other_records_are_refused() -> None:
    records: tuple[Record, ...] = (
        {}, {"messages": []}, {"messages": "no JSON"}, {"messages": ["a"]}, {"instruction": "a"},
        {"messages": [{"role": "user"}]}, {"messages": [{"content": "a"}]}, {"messages": 5},
        {"messages": [{"role": "user", "content": 5}]}, {"messages": [{"role": 5, "content": "a"}]},
        {"messages": MESSAGES, "tools": "no JSON"}, {"messages": MESSAGES, "tools": [1]},
        {"messages": MESSAGES, "chat_template_kwargs": [1]},
        {"instruction": "a", "output": "b", "history": ["c"]},
    )  # fmt: skip
    for record in records:
        with pytest.raises(RefusedRecordError) as error:
            renderer()(record, ())
        assert error.value.reason == "not-a-conversation", record


def test_records_that_no_process_survives_are_rejects() -> None:
    maker = Conversations(Layout(), renderer_settings(CHATML.template))
    deep: dict[int, Any] = {0: []}
    for level in range(900):
        deep[level + 1] = [deep[level]]
    assert maker({"messages": [*MESSAGES, *ask("a", key=deep[190])]})
    for record in (
        {"messages": ask("a\ufdd1")},
        {"messages": ask("a", key=deep[200])},
        {"messages": ask("a", key=deep[900])},
        {"messages": MESSAGES, "tools": "[" * 5000 + "]" * 5000},
        {"messages": "[" * 5000 + "]" * 5000},
    ):
        with pytest.raises(UnreadableError):
            maker(record)
    assert learned_of(maker({"messages": MESSAGES})) == CHATML.learned


def test_what_the_template_refuses_is_refused() -> None:
    for family, messages in (("gemma", [SYSTEM, *MESSAGES]), ("mistral", MESSAGES[1:])):
        with pytest.raises(RefusedRecordError) as error:
            renderer(FAMILIES[family])({"messages": messages}, ())
        assert error.value.reason == "template-refuses"
    for template in (
        "{% for p in messages[0].content %}{{ p.text }}{% endfor %}x",
        "{{ messages[0].role }}",
    ):
        with pytest.raises(RefusedRecordError, match="next to nothing of the contents"):
            renderer(template=template)({"messages": MESSAGES}, ())
    parts = [{"type": "text", "text": "a river"}]
    template = "{% for m in messages %}{{ m.content }}{% endfor %}"
    with pytest.raises(RefusedRecordError, match="as Python prints them"):
        renderer(template=template)({"messages": ask(parts, "b")}, ())


TOLD: tuple[
    tuple[Record, tuple[str, ...], Record, list[str]], ...
] = (  # further fields, names of other fields, further keys of the last message, what is unread
    ({}, (), {}, []),
    ({"system": "Be brief."}, (), {}, []),
    ({"messages": [SYSTEM, *MESSAGES], "system": "Other."}, (), {}, ["system"]),
    ({"tools": CALLS}, (), {}, ["tools"]),
    ({"tools": []}, (), {}, []),
    ({"tools": json.dumps(CALLS)}, (), {}, ["tools"]),
    ({"history": [["a", "b"]]}, (), {}, ["history"]),
    ({"conversations": MESSAGES}, (), {}, ["conversations"]),
    ({"input": "", "output": "a"}, (), {}, ["output"]),
    ({"chat_template_kwargs": {"enable_thinking": False}}, (), {}, ["chat_template_kwargs"]),
    ({}, ("id", "source"), {}, ["id", "source"]),
    ({}, (), {"thinking": "so"}, ["messages.thinking"]),
    ({}, (), {"reasoning": "so"}, ["messages.reasoning"]),
    ({}, (), {"tool_calls": CALLS}, ["messages.tool_calls"]),
    ({}, (), {"tool_calls": []}, []),
    ({}, (), {"name": "Ada"}, ["messages.name"]),
    ({}, (), {"score": 3}, ["messages.score"]),
    ({}, (), {"weight": 1, "id": "m-1"}, []),
    ({}, (), {"weight": 0.5}, ["messages.weight"]),
)


def test_what_does_not_reach_the_text_is_counted_by_name() -> None:
    for fields, others, keys, names in TOLD:
        messages = [*MESSAGES[:-1], MESSAGES[-1] | keys]
        text = renderer()({"messages": messages, **fields}, others)
        assert sorted(counts_of(text, "unread.")) == names, (fields, others, keys)
    reads = CHATML.template.replace(
        "message['content'] +", "message.reasoning_content + message.content +"
    )
    for key in ("thinking", "reasoning", "reasoning_content"):
        messages = [{**message, key: "seven stones"} for message in MESSAGES]
        text = renderer(template=reads)({"messages": messages}, ())
        assert "seven stonesThe keeper" in text
        assert not counts_of(text, "unread.")
    shown = "{{ tools | tojson if tools }}" + CHATML.template
    for tools in (CALLS, json.dumps(CALLS)):
        text = renderer(template=shown)({"messages": MESSAGES, "tools": tools}, ())
        assert not counts_of(text, "unread."), tools
    escaped = "{% for m in messages %}{{ m.content }}{{ m.tool_calls | tojson if m.tool_calls }}"
    escaped += "{% endfor %}"
    arguments = {"a": 'a "word"\n in \u00fcber', "b": {"c": ["d"]}}
    messages = ask("x", "y", tool_calls=[{"function": {"name": "f", "arguments": arguments}}])
    assert not counts_of(renderer(template=escaped)({"messages": messages}, ()), "unread.")


def test_few_fields_of_a_record_are_named() -> None:
    names = [f"{letter}_field" for letter in "abcdefghijklmnopqrstuvwxyzABCDEFGHIJ"]
    text = renderer()({"messages": MESSAGES}, [*names, "1f0e-8", "x" * 99])
    assert len(counts_of(text, "unread.")) == 32
    assert not any(name[0].isdigit() for name in counts_of(text, "unread."))
    # Roles, too, and those that templates do not know.
    messages = [*MESSAGES, {"role": "pirate", "content": "b"}, {"role": "1", "content": "c"}]
    text = renderer()({"messages": messages}, ())
    assert counts_of(text, "messages.") == {"assistant": 2, "pirate": 1, "user": 2}
    assert counts_of(text, "unknown_roles.") == {"pirate": 1}


def test_what_the_data_say_is_learned_is_learned() -> None:
    marked = FAMILIES["qwen-with-marks"]
    for family in (CHATML, marked, LLAMA):
        for key, value in (("weight", 0), ("weight", 0.0), ("train", False), ("loss", False)):
            messages = [MESSAGES[0], MESSAGES[1] | {key: value}, *MESSAGES[2:]]
            text = renderer(family)({"messages": messages}, ())
            assert learned_of(text) == family.learned[1:], key
            assert not counts_of(text, "unread.")
    turns = [TURNS[0], TURNS[1] | {"train": False}, *TURNS]
    assert learned_of(renderer()({"conversations": turns}, ())) == ("b<|im_end|>",)


def test_turns_without_an_end_get_one() -> None:
    special = ["<|user|>", "<|assistant|>", "<|end|>"]
    glm = "{% for m in messages %}{{ '<|' + m.role + '|>\n' + m.content }}{% endfor %}"
    glm += "{% if add_generation_prompt %}{{ '<|assistant|>\n' }}{% endif %}"
    plain = renderer(template=glm, special=special)
    text = plain({"messages": MESSAGES}, ())
    assert learned_of(text) == ("The keeper.", "He as well.")
    assert counts_of(text, "open_turns.") == {"<|user|>": 1, "<|im_end|>": 1}
    ended = renderer(template=glm, special=special, end_of_turn=["<|user|>"])
    marked = ended({"messages": MESSAGES}, ())
    assert learned_of(marked) == ("The keeper.<|user|>", "He as well.<|user|>")
    assert remove_marks(marked) == remove_marks(text) + "<|user|>"
    assert not counts_of(marked, "open_turns.")


def test_templates_and_values_are_chosen() -> None:
    templates = {"default": CHATML.template, "tool_use": "{{ 'T' }}" + CHATML.template}
    make = renderer(templates=templates)
    assert remove_marks(make({"messages": MESSAGES}, ()))[0] == "<"
    assert remove_marks(make({"messages": MESSAGES, "tools": CALLS}, ()))[0] == "T"
    shown = "{{ mood | upper }}" + CHATML.template
    values = {"eos_token": "<|im_end|>", "mood": "calm"}
    make = renderer(template=shown, values=values)
    assert remove_marks(make({"messages": MESSAGES}, ())).startswith("CALM")
    record = {"messages": MESSAGES, "chat_template_kwargs": '{"mood": "wild"}'}
    assert remove_marks(make(record, ())).startswith("WILD")


def test_fields_are_proposed() -> None:
    maker = Conversations(Layout(), "")
    for names, wanted in (
        (["conversation"], "--messages-field conversation"),
        (["id", "dialog"], "--messages-field dialog"),
        (
            ["instruction", "context", "response"],
            "--instruction-fields instruction context response",
        ),
        (["question", "answer"], "--instruction-fields question answer"),
        (["body"], "--messages-field or --instruction-fields"),
    ):
        lack = maker.explain_lack(names)
        assert lack
        assert wanted in str(UserError("x", *lack)), names
    for names in (["messages"], ["conversations", "id"], ["instruction", "output"]):
        assert maker.explain_lack(names) is None


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
    packed = list(objective.pack(iter(built)))
    special = [token for token in family.special if token]
    tokens = json.loads(maker.settings)["values"]  # type: ignore[attr-defined]
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
def test_rows_are_those_of_the_reference(tmp_path: Path, name: str) -> None:
    length = 96 if name in {"chatml", "vicuna", "yi"} else 512
    family, records = FAMILIES[name], draw_conversations(60, seed=length)
    rows, counts, pieces = build_rows(tmp_path, family, records, 40, max_seq_length=length)
    fitting = [piece for piece in pieces if len(piece[0]) <= length]
    assert sorted(part for row in rows for part in cut_row(row, "loss_mask")) == sorted(fitting)
    sizes = [len(ids) for ids, _ in fitting]
    assert sorted(len(row["input_ids"]) for row in rows) == best_fit(sizes, length)
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
    contents = [remove_marks(content) for content in contents]
    try:
        text = renderer()({"messages": ask(*contents)}, ())
    except RefusedRecordError:
        assert not "".join(contents).strip()
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
    assert divide_templates(str(load_tokenizer(folder).chat_template)) == {
        "a": "b", "default": "d",
    }  # fmt: skip
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
    for template in ("{% for %}", "{{ messages[0]" + "[0]" * 9999, ENDLESS):
        with pytest.raises(UserError, match="no chat template that can be used"):
            ChatOptions(chat_template=template).complete(tokenizer, lambda _: None)
    with pytest.raises(UserError, match="no special token"):
        ChatOptions(end_of_turn=("<|no|>",)).complete(tokenizer, lambda _: None)
    for wrong in (
        {"chat_template_kwargs": "[1]"}, {"chat_template_kwargs": "{"},
        {"chat_template_date": "today"}, {"instruction_fields": ("a",)},
    ):  # fmt: skip
        with pytest.raises(UserError, match=next(iter(wrong)).replace("_", "-")):
            ChatOptions(**wrong)

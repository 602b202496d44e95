"""Chat templates render as in transformers, and those of strangers harm nobody."""

from contextlib import suppress
from itertools import pairwise
from typing import Any

import pytest

from corpusmill.corpus.batches import UnreadableError
from corpusmill.objectives.chat import RenderingProcess
from corpusmill.objectives.chat_records import RefusedRecordError
from corpusmill.objectives.chat_templates import ChatTemplate
from tests.tools.chat_data import renderer_settings
from tests.tools.chat_families import FAMILIES, MESSAGES
from tests.tools.lazily import LazyModule

chat_templates = LazyModule("transformers.utils.chat_template_utils")

DATE = "2024-07-26"
_NEST = "{% set ns = namespace(x=('a',)) %}{% for a in range(60) %}{% set ns.x = (ns.x, ns.x) %}{% endfor %}"  # noqa: E501
# Processor time within C, where nothing else can stop it, and memory.
ENDLESS = {
    "hashes": _NEST + "{% set x = {ns.x: 1} %}",
    "texts": "{% set ns = namespace(x='a') %}{% for a in range(99) %}{% set ns.x = ns.x ~ ns.x %}"
    "{% endfor %}",
}
CODE = {
    "changes": "{{ messages[0].update({'a': 1}) }}",
    "classes": "{{ ''.__class__.__mro__ }}",
    "functions": "{{ raise_exception.__globals__ }}",
    "hidden attributes": "{{ dict.__subclasses__() }}{{ namespace().__init__.__globals__ }}",
    "files": "{% include 'x' %}",
}


def render(source: str, messages: list[Any], asks: bool = False, **values: Any) -> str:
    values = {"tools": None, "documents": None, **values}
    return ChatTemplate(source, DATE).render(messages, values, asks).text


def assert_stopped(source: str) -> None:
    harm = "{% for message in messages %}{{ message.content }}{% endfor %}"
    harm += "{% if messages | length == 2 %}" + source + "{% endif %}"
    settings = renderer_settings(harm)
    process = RenderingProcess(settings)
    assert not process.error
    with pytest.raises(UnreadableError) as error:
        process.render({"messages": MESSAGES[:2]}, ())
    assert error.value.reason == "template-refuses"
    process = RenderingProcess(settings) if process.has_ended else process
    assert MESSAGES[0]["content"] in process.render({"messages": MESSAGES}, ())


def test_a_text_without_an_end_is_stopped_and_the_next_record_is_rendered() -> None:
    assert_stopped(ENDLESS["texts"])


def test_a_template_without_an_end_is_stopped_and_the_next_record_is_rendered() -> None:
    assert_stopped(ENDLESS["hashes"])


def test_templates_reach_nothing_but_their_values() -> None:
    for name, source in CODE.items():
        with suppress(RefusedRecordError):
            assert not render(source, MESSAGES), name  # what may not be read is undefined


def test_a_process_outlives_what_templates_refuse() -> None:
    process = RenderingProcess(renderer_settings("{{ raise_exception('no \ud800') }}"))
    for _ in range(3):
        with pytest.raises(UnreadableError, match="no "):
            process.render({"messages": MESSAGES}, ())
    assert not process.has_ended


def test_the_day_is_an_option() -> None:
    assert render("{{ strftime_now('%d %b %Y') }}", MESSAGES) == "26 Jul 2024"
    fixed = "{{ strftime_now('%Y') if strftime_now is defined else '2023' }}"
    assert render(fixed, MESSAGES) == "2024"


CONSTRUCTS = [
    "{%- for m in messages[::-1] %}{% if loop.last %}{% break %}{% endif %}x{% endfor %}",
    "{{ messages | selectattr('role', 'equalto', 'user') | map(attribute='content') | join }}",
    "{{ tools | tojson(indent=4) if tools else messages | tojson }}",
    "{{ messages | tojson(separators=(',', ':'), sort_keys=true, ensure_ascii=true) | safe }}",
    "{{ (messages[0].content | safe) + '<end>' }}{{ '<' | e }}{{ 'a' | center(9) | indent(2) }}",
    "{% macro say(m, end='!') %}{{ m.content }}{{ end }}{% endmacro %}{{ say(messages[0]) }}",
    "{% set s = namespace(n=0) %}{% for m in [1, 2] %}{% set s.n = s.n + 1 %}{{ s.n }}{% endfor %}",
    "{{ messages[0].get('name', 'none') }}{{ dict(a=1) }}{{ dict.fromkeys('ab', 0) }}",
    "{% for k, v in messages[0].items() %}{{ k }}={{ v }}{% endfor %}",
    "{{ messages[-1]['content'].split(' ')[-1].rstrip('.') }}{{ 7 // 2 % 2 ** 3 - 1 }}",
    "{{ 'x' if messages[0].missing is not defined and 'a' in 'abc' }}{{ undefined_name }}",
    "  {% if true %}\n  line\n  {% endif %}\n{{ none }}{{ [1, 'a', none] }}{{ {'a': 1} }}\n",
    "{% set c = cycler('a', 'b') %}{{ c.next() }}{{ c.next() }}{% set j = joiner() %}{{ j() }}",
    "{% for m in messages if m.role == 'user' %}{{ loop.index }}{{ m.content }}{% endfor %}",
    "{% for m in messages %}{{ loop.nextitem if not loop.last }}{{ loop.changed(m) }}{% endfor %}",
    "{{ messages is sequence }}{{ (messages + []) | length }}{{ messages | first }}",
    "{% generation %}{{ messages[0].content }}{% endgeneration %}{{ '%s' % 1 }}",
]


def test_constructs_and_families_render_as_in_transformers() -> None:
    sources = [(source, {"bos_token": "<s>"}) for source in CONSTRUCTS]
    for family in FAMILIES.values():
        names = zip(("bos_token", "eos_token"), family.special, strict=False)
        sources.append((family.template, dict(names)))
    for source, tokens in sources:
        for number in range(1, len(MESSAGES) + 1):
            for asks in (False, True):
                expected, _ = chat_templates.render_jinja_template(
                    [MESSAGES[:number]], chat_template=source, add_generation_prompt=asks, **tokens
                )
                assert render(source, MESSAGES[:number], asks, **tokens) == expected[0], source


def test_turns_are_what_messages_add() -> None:
    """The text of each message is what the text of the messages up to it has more."""
    for name, family in FAMILIES.items():
        names = zip(("bos_token", "eos_token"), family.special, strict=False)
        tokens, template = dict(names), ChatTemplate(family.template, DATE)
        text, turns, _ = template.render(MESSAGES, tokens)
        lengths = [len(template.render(MESSAGES[:n], tokens).text) for n in range(1, 5)]
        for number, (begin, end) in enumerate(pairwise([0, *lengths])):
            turn = text[slice(*turns[number])].strip()
            # What stands before the first message is no part of it; line breaks may be of either.
            assert text[begin:end].strip().endswith(turn), name
            assert turn == text[begin:end].strip() or not number, name


def test_loops_that_write_nothing_or_elsewhere_are_no_turns() -> None:
    looks = "{% for m in messages[::-1] %}{% set x = m.role %}{% endfor %}"
    chatml = FAMILIES["chatml"].template
    plain = ChatTemplate(chatml, DATE).render(MESSAGES, {})
    assert ChatTemplate(looks + chatml + looks, DATE).render(MESSAGES, {}) == plain
    # Within a macro nobody knows where the text goes to.
    inside = "{% macro all() %}" + chatml + "{% endmacro %}{{ all() }}"
    assert not any(b < e for b, e in ChatTemplate(inside, DATE).render(MESSAGES, {}).turns.values())


def test_what_is_generated_within_macros_is_found() -> None:
    source = "{% macro say(m) %}[{{ m.role }}]{% generation %}{{ m.content }}{% endgeneration %}"
    source += "{% endmacro %}{% for m in messages %}{{ say(m) }}{% endfor %}"
    text, _, generated = ChatTemplate(source, DATE).render(MESSAGES, {})
    contents = [message["content"] for message in MESSAGES]
    assert [text[begin:end] for begin, end in generated] == contents
    with pytest.raises(RefusedRecordError, match="generation"):
        render("{{ say }}" + source.replace("say(m) }}", "say(m) | upper }}"), MESSAGES)

"""Templates of strangers can neither run code nor hang, and render as transformers does."""

import pytest

from corpusmill.corpus.batches import UnreadableError
from corpusmill.errors import UserError
from corpusmill.objectives.chat_templates import ChatTemplate
from corpusmill.tokenization.text_cuts import remove_marks
from tests.tools.chat_families import FAMILIES, MESSAGES
from tests.tools.lazily import LazyModule

chat_templates = LazyModule("transformers.utils.chat_template_utils")

_LOOP = "{%% for a in range(99) %%}{%% set ns.x = %s %%}{%% endfor %%}"
_GROW = "{%% set ns = namespace(x=%s) %%}" + _LOOP
_NEST = (
    "{% set ns = namespace(x=[1], y=[1]) %}{% for a in range(60) %}"
    "{% set ns.x = [ns.x, ns.x] %}{% set ns.y = [ns.y, ns.y] %}{% endfor %}"
)
_LONG = "{% set x = 'a' * 9999 %}"

ENDLESS = {
    "nested loops": "{% for a in range(9999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
    "loops that print": "{% for a in range(99999) %}" + "x" * 10_000 + "{% endfor %}",
    "joined texts": _GROW % ("'a'", "ns.x ~ ns.x"),
    "added texts": _GROW % ("'a'", "ns.x + ns.x"),
    "added lists": _GROW % ("[1]", "ns.x + ns.x"),
    "blocks": "{% set ns = namespace(x='aaaaaaaa') %}{% for a in range(99) %}"
    "{% set y %}{{ ns.x }}{{ ns.x }}{% endset %}{% set ns.x = y %}{% endfor %}",
    "repeated text": "{{ 'a' * 10**9 }}",
    "repeated list": "{{ ([1] * 10**9) | length }}",
    "width of %": "{{ '%999999999d' % 1 }}",
    "width of format": "{{ '{:999999999}'.format(1) }}",
    "filter format": "{{ '%999999999d' | format(1) }}",
    "center": "{{ 'a' | center(10**9) }}",
    "method center": "{{ 'a'.center(10**9) }}",
    "ljust": "{{ 'a'.ljust(10**9) }}",
    "zfill": "{{ 'a'.zfill(10**9) }}",
    "expandtabs": "{{ '\t'.expandtabs(10**9) }}",
    "mapped filter": "{{ ['a'] | map('center', 10**9) | list }}",
    "bytes": "{{ (5).to_bytes(10**9) }}",
    "macros": "{% macro m() %}{{ m() }}{{ m() }}{% endmacro %}{{ m() }}",
    "growing macros": "{% macro m(x) %}{{ m(x + x) }}{% endmacro %}{{ m('a' * 1000) }}",
    "recursive loops": "{% for a in [1] recursive %}{{ loop([1]) }}{% endfor %}",
    "recursive blocks": "{% block a %}{{ self.a() }}{% endblock %}",
    "nested lists": _NEST + "{{ ns.x }}",
    "nested JSON": _NEST + "{{ ns.x | tojson }}",
    "nested comparison": _NEST + "{{ ns.x == ns.y }}",
    "power": "{{ 2 ** 99999999 }}",
    "large numbers": _GROW % ("3", "ns.x * ns.x"),
    "replace": _LONG + "{% set y = 'b' * 9999 %}{{ x.replace('a', y) | replace('b', y) }}",
    "join": _LONG + "{{ x | join(x) | join(x) }}",
    "method join": _LONG + "{{ x.join(x).join(x) }}",
    "slices": _LONG + "{% for a in range(99999) %}{% set b = x[1:] %}{% endfor %}",
    "tests": _LONG + "{{ x | list | select('in', x * 99) | list | length }}",
    "indented JSON": "{{ [[[[1]]]] | tojson(indent=10**9) }}",
    "range": "{{ range(10**12) | list | length }}",
    "growing list": "{% set l = [1] %}{% for a in l %}{% set _ = l.append(1) %}{% endfor %}",
    "brackets": "{{ " + "(" * 5000 + "1" + ")" * 5000 + " }}",
}
CODE = {
    "classes": "{{ ''.__class__.__mro__ }}",
    "item": "{{ ''['__class__'] }}",
    "attr": "{{ '' | attr('__class__') }}",
    "functions": "{{ raise_exception.__globals__ }}",
    "environment": "{{ self.__init__.__globals__ }}",
    "changes": "{{ messages[0].update({'a': 1}) }}",
    "namespace in itself": "{% set ns = namespace() %}{% set ns.a = ns %}{{ ns }}",
}


@pytest.mark.parametrize("source", [*ENDLESS.values(), *CODE.values()], ids=[*ENDLESS, *CODE])
def test_templates_that_hang_or_run_code_are_refused(source: str) -> None:
    with pytest.raises(UserError, match="--chat-template"):
        ChatTemplate(source).render(MESSAGES, False)


def test_the_same_number_of_steps_is_refused_each_time() -> None:
    def messages(source: str) -> set[str]:
        refused = set()
        for _ in range(3):
            with pytest.raises(UserError) as error:
                ChatTemplate(source).render(MESSAGES, False)
            refused.add(str(error.value))
        return refused

    assert all(len(messages(source)) == 1 for source in ENDLESS.values())


@pytest.mark.parametrize(
    "source",
    ["{{ raise_exception('no') }}", "{{ missing.name }}", "{{ 1 + 'a' }}", "{% include 'x' %}"],
)  # fmt: skip
def test_a_template_that_fails_on_a_conversation_refuses_it(source: str) -> None:
    with pytest.raises(UnreadableError) as error:
        ChatTemplate(source).render(MESSAGES, False)
    assert error.value.reason == "template-refuses"


def test_the_day_is_not_told() -> None:
    fixed = "{{ strftime_now('%d') if strftime_now is defined else '26 Jul 2024' }}"
    assert ChatTemplate(fixed).render(MESSAGES, False) == "26 Jul 2024"
    with pytest.raises(UserError, match="strftime_now"):
        ChatTemplate("{{ strftime_now('%d') }}").render(MESSAGES, False)


@pytest.mark.parametrize(
    ("source", "allowed", "refused"),
    [
        # A turn of a loop takes 64 steps, and there are some for the conversation.
        ("{%% for a in range(%d) %%}{%% endfor %%}", 64_000, 99_000),
        # A text takes a step for each character.
        ("{{ 'a' * %d }}", 1_000_000, 5_000_000),
        # A value of a list takes 8 steps and its own.
        ("{{ [0] * %d }}", 380_000, 600_000),
        ("{{ (2 ** %d) // 2 ** 1000 }}", 2000, 3000),
        ("{{ 'a' | batch(%d) | list | length }}", 1024, 1025),
        (
            "{%% macro m(n) %%}{%% if n %%}{{ m(n - 1) }}{%% endif %%}{%% endmacro %%}{{ m(%d) }}",
            31,
            32,
        ),
    ],
)
def test_limits_of_templates(source: str, allowed: int, refused: int) -> None:
    ChatTemplate(source % allowed).render([], False)
    with pytest.raises(UserError, match="not safe to render"):
        ChatTemplate(source % refused).render([], False)


def test_long_conversations_have_more_steps() -> None:
    messages = [{"role": "user", "content": "word " * 2000} for _ in range(300)]
    template = ChatTemplate(FAMILIES["deepseek"].template)
    assert len(template.render(messages, True, bos_token="")) > 3_000_000


CONSTRUCTS = [
    "{%- for m in messages[::-1] %}{% if loop.last %}{% break %}{% endif %}x{% endfor %}",
    "{{ messages | selectattr('role', 'equalto', 'user') | map(attribute='content') | join }}",
    "{{ tools | tojson(indent=4) if tools else messages | tojson }}",
    "{% macro say(m, end='!') %}{{ m.content }}{{ end }}{% endmacro %}{{ say(messages[0]) }}",
    "{% set s = namespace(n=0) %}{% for m in [1, 2] %}{% set s.n = s.n + 1 %}{{ s.n }}{% endfor %}",
    "{{ messages[0].get('name', 'none') }}{{ messages[0].keys() | list }}",
    "{% for k, v in messages[0].items() %}{{ k }}={{ v }}{% endfor %}",
    "{{ messages[-1]['content'].split(' ')[-1].rstrip('.') }}{{ 7 // 2 % 2 ** 3 - 1 }}",
    "{{ 'x' if messages[0].missing is not defined and 'a' in 'abc' }}{{ undefined_name }}",
    "  {% if true %}\n  line\n  {% endif %}\n{{ none }}{{ [1, 'a', none] }}{{ {'a': 1} }}",
]


@pytest.mark.parametrize("source", CONSTRUCTS)
@pytest.mark.parametrize("asks", [False, True])
def test_constructs_render_as_in_transformers(source: str, asks: bool) -> None:
    expected, _ = chat_templates.render_jinja_template(
        [MESSAGES],
        chat_template=source,
        add_generation_prompt=asks,
        bos_token="<s>",  # noqa: S106
    )
    values = {"tools": None, "documents": None, "bos_token": "<s>"}
    assert ChatTemplate(source).render(MESSAGES, asks, **values) == expected[0]


@pytest.mark.parametrize("name", FAMILIES)
def test_families_render_as_in_transformers(name: str) -> None:
    family = FAMILIES[name]
    tokens = {"bos_token": family.special[0], "eos_token": family.special[1]}
    for number in range(1, len(family.messages) + 1):
        messages = family.messages[:number]
        if messages[-1]["role"] == "system":
            continue
        for asks in (False, True):
            expected, _ = chat_templates.render_jinja_template(
                [messages], chat_template=family.template, add_generation_prompt=asks, **tokens
            )
            rendered = ChatTemplate(family.template).render(messages, asks, tools=None, **tokens)
            assert remove_marks(rendered) == expected[0]

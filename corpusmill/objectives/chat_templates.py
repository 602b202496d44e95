r"""Chat templates, rendered so that those of strangers can neither run code nor hang.

A template is one of Jinja, with what transformers' `apply_chat_template` gives to it: trimmed
blocks, `break` and `continue`, `{% generation %}`, `tojson` and `raise_exception`. There is no
`strftime_now`, as a rendered text must not depend on the day.

Jinja's sandbox keeps a template from everything but its values. What it leaves is time and memory:
loops within loops, texts that are doubled, `'a' * 10**9`. So a rendering has a number of steps,
which are counted and not timed, so that the same template fails at the same place on every machine.
Each turn of a loop, call, filter and operator takes some steps, and a text as many as it has
characters; what would multiply texts is counted before it is computed. Filters and methods of which
templates have no need, such as `center` and `format`, are not there.
"""

import json
import re
from collections.abc import (
    Callable,
    ItemsView,
    Iterator,
    KeysView,
    Sequence,
    ValuesView,
)
from functools import lru_cache, partial
from typing import Any

from jinja2 import nodes, pass_context
from jinja2.exceptions import SecurityError, TemplateError, TemplateSyntaxError, UndefinedError
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.runtime import Context, LoopContext, Undefined
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace
from jinja2.visitor import NodeTransformer

from corpusmill.corpus.batches import UnreadableError
from corpusmill.errors import UserError, in_one_line, option
from corpusmill.tokenization.text_cuts import BEGIN, END

# The steps of an operation and of a value in a list, besides those for their sizes, and of the
# least rendering.
_STEPS, _STEPS_OF_A_PART, _LEAST_STEPS = 64, 8, 2**22
# The most steps that a rendering takes for each character of its conversation.
_STEPS_PER_CHARACTER = 256
_MOST_DEPTH = 32
_LARGEST_BITS, _MOST_ARGUMENT = 4096, 1024
_GENERATION = re.compile(r"\{%[-+]?\s*generation\s*[-+]?%\}")
_CURE = "Give another template, which a person has read"

# fmt: off
_FILTERS = (
    "abs", "batch", "capitalize", "count", "d", "default", "dictsort", "first", "float", "int",
    "items", "join", "last", "length", "list", "lower", "map", "max", "min", "reject",
    "rejectattr", "replace", "reverse", "round", "select", "selectattr", "slice", "sort", "string",
    "title", "tojson", "trim", "unique", "upper",
)
# Those that look at all that is in a value, and the tests that do.
_DEEP = frozenset({"join", "max", "min", "sort", "string", "tojson", "unique"})
_COMPARING = (
    "==", "eq", "equalto", "!=", "ne", ">", "gt", "greaterthan", ">=", "ge", "<", "lt", "lessthan",
    "<=", "le", "in",
)
_METHODS: dict[type, frozenset[str]] = {
    str: frozenset({
        "capitalize", "count", "endswith", "find", "index", "isalnum", "isalpha", "isdecimal",
        "isdigit", "islower", "isnumeric", "isspace", "istitle", "isupper", "join", "lower",
        "lstrip", "partition", "removeprefix", "removesuffix", "replace", "rfind", "rindex",
        "rpartition", "rsplit", "rstrip", "split", "splitlines", "startswith", "strip", "swapcase",
        "title", "upper",
    }),
    dict: frozenset({"get", "items", "keys", "values"}),
    list: frozenset({"count", "index"}),
    tuple: frozenset({"count", "index"}),
}
# fmt: on
_SIZED = (str, list, tuple, set, dict, KeysView, ValuesView, ItemsView)


class UnsafeTemplateError(Exception):
    """A template takes too long, needs too much memory, or does what no template may."""


class _Steps:
    """The steps that are left of a rendering, under a name that no template can write."""

    name = "\0steps"

    def __init__(self, number: int) -> None:
        self.number, self.left, self.depth = number, number, 0

    def spend(self, steps: int) -> None:
        self.left -= steps + _STEPS
        if self.left < 0:
            raise UnsafeTemplateError(f"it takes more than {self.number:,} steps")

    def spend_on(self, value: Any) -> int:
        """Spend the size of a value with all that is in it, as of one that is written or compared.

        A list may hold another one many times, so that its text is larger than its memory.

        Returns:
            The size.
        """
        left = self.left

        def measure(part: Any, depth: int) -> None:
            nonlocal left
            left -= size_of(part) + _STEPS_OF_A_PART
            if left < 0 or depth > _MOST_DEPTH:
                raise UnsafeTemplateError(f"it takes more than {self.number:,} steps")
            if isinstance(part, dict):
                for pair in part.items():
                    measure(pair[0], depth + 1)
                    measure(pair[1], depth + 1)
            elif isinstance(part, list | tuple | set):
                for inner in part:
                    measure(inner, depth + 1)
            elif not (part is None or isinstance(part, str | int | float | Undefined | range)):
                raise SecurityError(f"it writes or compares a {type(part).__name__}")

        measure(value, 0)
        size = self.left - left
        self.spend(size)
        return size


def size_of(value: Any) -> int:
    """The steps for a value, without those for what is in it."""
    if isinstance(value, _SIZED):
        return len(value) + 1
    return value.bit_length() if isinstance(value, int) else 1


def _steps_of(context: Context) -> _Steps:
    steps: _Steps = context[_Steps.name]
    return steps


@pass_context
def _spend_on(context: Context, value: Any) -> Any:
    _steps_of(context).spend_on(value)
    return value


@pass_context
def _spend(context: Context, value: Any) -> Any:
    _steps_of(context).spend(size_of(value))
    return value


@pass_context
def _each(context: Context, values: Any) -> Iterator[Any]:
    # An iterator, so that a loop over what cannot be iterated fails as in Jinja.
    return _count(_steps_of(context), iter(values))


def _count(steps: _Steps, values: Iterator[Any]) -> Iterator[Any]:
    for value in values:
        steps.spend(0)
        yield value


def _wrap(node: Any, name: str) -> Any:
    return nodes.Filter(node, name, [], [], None, None, lineno=node.lineno)


class _CountSteps(NodeTransformer):
    """Puts a filter that counts around all that takes time and is not a filter or a call."""

    def visit_Output(self, node: Any) -> Any:  # noqa: N802  Jinja's names
        node = self.generic_visit(node)
        node.nodes = [
            _wrap(
                nodes.Const(part.data, lineno=part.lineno)
                if isinstance(part, nodes.TemplateData)
                else part,
                "spend_on",
            )
            for part in node.nodes
        ]
        return node

    def visit_For(self, node: Any) -> Any:  # noqa: N802
        node = self.generic_visit(node)
        node.iter = _wrap(node.iter, "each")
        return node

    def visit_Compare(self, node: Any) -> Any:  # noqa: N802
        node = self.generic_visit(node)
        node.expr = _wrap(node.expr, "spend_on")
        for operand in node.ops:
            operand.expr = _wrap(operand.expr, "spend_on")
        return node

    def visit_Concat(self, node: Any) -> Any:  # noqa: N802
        node = self.generic_visit(node)
        node.nodes = [_wrap(part, "spend_on") for part in node.nodes]
        return _wrap(node, "spend")

    def visit_Getitem(self, node: Any) -> Any:  # noqa: N802
        node = self.generic_visit(node)
        return _wrap(node, "spend") if isinstance(node.arg, nodes.Slice) else node

    def _visit_collection(self, node: Any) -> Any:
        node = self.generic_visit(node)
        # A target of an assignment is no value.
        return node if getattr(node, "ctx", "load") == "store" else _wrap(node, "spend")

    visit_List = visit_Dict = visit_Tuple = _visit_collection  # noqa: N815


class _Generation(Extension):
    """`{% generation %}`: what a model generates stands between marks."""

    tags = {"generation"}  # noqa: RUF012  as Jinja declares it

    def parse(self, parser: Parser) -> nodes.Node:
        """Put marks around the tag's content, in a scope of its own."""
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        marks = [nodes.Output([nodes.TemplateData(mark)], lineno=line) for mark in (BEGIN, END)]
        return nodes.Scope([marks[0], *body, marks[1]], lineno=line)


def _guard(name: str, call: Callable[..., Any], is_deep: bool) -> Callable[..., Any]:
    """Return a filter or a test that counts its steps, and refuses to blow texts up."""

    @pass_context
    def guarded(context: Context, value: Any, *args: Any, **kwargs: Any) -> Any:
        steps, size = _steps_of(context), 0
        if is_deep:
            value = list(_count(steps, value)) if isinstance(value, Iterator) else value
            size = steps.spend_on(value)
        numbers = _check_arguments(steps, name, value, (*args, *kwargs.values()))
        if name == "tojson":  # each value may have a line of its own, which is indented
            steps.spend(size * _MOST_DEPTH * max(numbers, default=0))
        result = call(name, value, args, kwargs, context, context.eval_ctx)
        steps.spend(size_of(result))
        return _count(steps, result) if isinstance(result, Iterator) else result

    return guarded


def _check_arguments(steps: _Steps, name: str, value: Any, given: Sequence[Any]) -> list[int]:
    """Spend what arguments hold, and what `replace` and `join` would multiply.

    Returns:
        The arguments that are whole numbers.
    """
    for argument in given:
        steps.spend_on(argument)
    texts = [argument for argument in given if isinstance(argument, str)]
    if name == "replace" and isinstance(value, str) and len(texts) > 1:
        steps.spend(value.count(texts[0]) * len(texts[1]))
    if name == "join" and isinstance(value, _SIZED):
        steps.spend(len(value) * max(map(len, texts), default=0))
    numbers = [abs(argument) for argument in given if isinstance(argument, int)]
    if max(numbers, default=0) > _MOST_ARGUMENT:
        raise UnsafeTemplateError(f"it gives {name} the number {max(numbers):,}")
    return numbers


class _Environment(ImmutableSandboxedEnvironment):
    intercepted_binops = frozenset(ImmutableSandboxedEnvironment.default_binop_table)

    def __init__(self) -> None:
        extensions: list[type[Extension]] = [_Generation, loopcontrols]
        super().__init__(
            trim_blocks=True, lstrip_blocks=True, extensions=extensions, optimized=False
        )
        plain = ImmutableSandboxedEnvironment()
        # Nothing is escaped for HTML, as in transformers.
        plain.filters["tojson"] = partial(json.dumps, ensure_ascii=False)
        self.filters = {name: _guard(name, plain.call_filter, name in _DEEP) for name in _FILTERS}
        self.filters |= {"spend_on": _spend_on, "spend": _spend, "each": _each}
        self.tests |= {name: _guard(name, plain.call_test, True) for name in _COMPARING}
        self.globals = {
            "range": self.globals["range"],
            "namespace": _Namespace,
            "dict": dict,
            "raise_exception": _raise_exception,
        }

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        """Whether a template may use it: methods that neither change a value nor blow it up."""
        if not super().is_safe_attribute(obj, attr, value):
            return False
        known = (attr in names for kind, names in _METHODS.items() if isinstance(obj, kind))
        return not callable(value) or next(known, isinstance(obj, LoopContext))

    def unsafe_undefined(self, obj: Any, attribute: str) -> Undefined:
        """Refuse what no template may use, even if it is not used."""
        raise SecurityError(f"it reads {attribute} of a {type(obj).__name__}")

    def wrap_str_format(self, value: Any) -> None:
        """Have `format` judged as other methods are."""

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        """Compute what two values give, after its size is known."""
        steps, size = _steps_of(context), size_of(left) + size_of(right)
        are_numbers = isinstance(left, int) and isinstance(right, int)
        if operator == "%" and isinstance(left, str):
            raise SecurityError("it formats a text with %")
        if operator == "*" and not are_numbers:
            size = _multiply(left, right)
        if operator == "**":
            size = size_of(left) * abs(right) if are_numbers else size
        if are_numbers and size > _LARGEST_BITS:
            raise UnsafeTemplateError("it computes with numbers that are too large")
        steps.spend(size)
        return super().call_binop(context, operator, left, right)

    def call(__self, __context: Context, __obj: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N805, PYI063
        """Call a function, a method or a macro, as deep as templates need it."""
        steps = _steps_of(__context)
        owner, name = getattr(__obj, "__self__", None), getattr(__obj, "__name__", "")
        if isinstance(__obj, LoopContext) and args:
            args = (_count(steps, iter(args[0])), *args[1:])
        elif isinstance(owner, str):
            if name == "join" and args:
                args = (list(_count(steps, iter(args[0]))),)
                steps.spend(len(args[0]) * len(owner))
            steps.spend(len(owner))
            _check_arguments(steps, name, owner, (*args, *kwargs.values()))
        steps.depth += 1
        if steps.depth > _MOST_DEPTH:
            raise UnsafeTemplateError("its macros call one another without an end")
        result = super().call(__context, __obj, *args, **kwargs)
        steps.depth -= 1
        steps.spend(size_of(result))
        return result


def _multiply(left: Any, right: Any) -> int:
    """The size of a text or list that is repeated."""
    many, times = (left, right) if isinstance(right, int) else (right, left)
    return size_of(many) * max(1, times if isinstance(times, int) else 1)


class _Namespace(Namespace):
    """A namespace whose names do not begin with an underscore; it holds no other namespace."""

    def __init__(*args: Any, **kwargs: Any) -> None:
        self, *rest = args
        Namespace.__init__(self, *rest)
        for name, value in kwargs.items():
            self[name] = value

    def __setitem__(self, name: str, value: Any) -> None:
        if name.startswith("_") or isinstance(value, Namespace):
            raise SecurityError(f"it keeps {name} in a namespace")
        super().__setitem__(name, value)


def _raise_exception(message: str) -> None:
    raise TemplateError(message)


class ChatTemplate:
    """A chat template, compiled.

    Args:
        source: its text.

    Attributes:
        has_marks: whether it marks what a model generates.

    Raises:
        UserError: it is not one.
    """

    def __init__(self, source: str) -> None:
        environment = _Environment()
        self.has_marks = bool(_GENERATION.search(source))
        try:
            code = environment.compile(_CountSteps().visit(environment.parse(source)))
        except (TemplateSyntaxError, TemplateError, RecursionError, SyntaxError) as error:
            cause = f"it is no chat template that can be used here ({in_one_line(error)})"
            raise UserError(option("chat_template"), cause, _CURE) from None
        make = environment.template_class.from_code
        self._template = make(environment, code, environment.make_globals(None))

    def render(self, messages: list[Any], add_generation_prompt: bool, **values: Any) -> str:
        """Render a conversation; what the template marks as generated stands between marks.

        Raises:
            UnreadableError: the template refuses the conversation, or fails on it.
            UserError: it takes too long, or does what no template may do.
        """
        size = len(json.dumps([messages, values], default=str))
        steps = _Steps(_LEAST_STEPS + _STEPS_PER_CHARACTER * size)
        try:
            return self._template.render(
                {
                    "messages": messages,
                    "add_generation_prompt": add_generation_prompt,
                    **values,
                    _Steps.name: steps,
                }
            )
        except (
            UnsafeTemplateError,
            SecurityError,
            RecursionError,
            MemoryError,
            OverflowError,
        ) as error:
            cause = f"the template is not safe to render: {in_one_line(error)}"
            raise UserError(option("chat_template"), cause, _CURE) from None
        except UndefinedError as error:
            if "strftime_now" in str(error):
                cause = "it writes the day on which it is rendered (strftime_now), by which no "
                cause += "build would be like another"
                cure = "Give a template with a fixed date"
                raise UserError(option("chat_template"), cause, cure) from None
            raise UnreadableError("template-refuses", in_one_line(error)) from None
        except Exception as error:  # templates of strangers fail in any way
            raise UnreadableError("template-refuses", in_one_line(error)) from None


load_template = lru_cache(maxsize=4)(ChatTemplate)

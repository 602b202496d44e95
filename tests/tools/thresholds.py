"""The thresholds in the code, and the page that lists them: docs/contributing/thresholds.md.

`python -m tests.tools.thresholds` writes the page's table of corpusmill/limits.py again. Its names,
values and words come from there, and the tests of its rows stay.
"""

import ast
import operator
import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

CHECKOUT = Path(__file__).resolve().parents[2]
PAGE = CHECKOUT / "docs" / "contributing" / "thresholds.md"
LIMITS = CHECKOUT / "corpusmill" / "limits.py"
_PACKAGES = ("corpusmill", "transforms", "pipeline")
HEAD = "| name | value | what changes beyond it | test |\n|---|---|---|---|"
_BEGIN, _END = "<!-- from corpusmill/limits.py -->", "<!-- until here -->"

# A module of the list of what is no threshold, with its names; some are literals.
_MODULE = re.compile(r"`([\w.]+)`: ((?:`[^`]+`(?:, )?)+)")
_NAME = re.compile(r"(?!np\.)[A-Za-z_][\w.]*(\(\w+\))?")
# Smaller integers are flags, steps and first places.
LEAST = 4


class Number(NamedTuple):
    """An integer that stands in the code.

    Attributes:
        module: where it stands, such as "corpus.batches", or "transforms.build".
        name: that of the constant, the class and its field, or the function and its parameter;
            or the number itself, where it is a literal.
        source: how its value is written.
    """

    module: str
    name: str
    source: str

    @property
    def is_literal(self) -> bool:
        """Whether it has no name."""
        return self.name == self.source

    @property
    def key(self) -> str:
        """What a row of the page calls it."""
        return f"{self.module}{': ' if self.is_literal else '.'}{self.name}"


class Row(NamedTuple):
    """A row of a table of thresholds: four cells."""

    key: str
    value: str
    change: str
    test: str


def rows_of(page: str) -> list[Row]:
    """Return the rows of the tables of thresholds."""
    lines = (line.strip("| ").split(" | ") for line in page.splitlines() if line.startswith("| `"))
    return [Row(cells[0].strip("`"), *cells[1:]) for cells in lines]


def names_of(page: str) -> Iterator[str]:
    """Yield the keys of what is no threshold; "module: *" are all literals of a module."""
    for module, names in _MODULE.findall(page, page.index("## No thresholds")):
        for name in re.findall(r"`([^`]+)`", names):
            yield f"{module}{'.' if _NAME.fullmatch(name) else ': '}{name}"


def write_limits(page: str) -> str:
    """Return the page with the table of corpusmill/limits.py as it should be."""
    begin, end = page.index(_BEGIN) + len(_BEGIN), page.index(_END)
    tests = {row.key: row.test for row in rows_of(page[begin:end])}
    return f"{page[:begin]}\n{''.join(_limits(tests))}\n{page[end:]}"


def _limits(tests: Mapping[str, str]) -> Iterator[str]:
    tree = ast.parse(LIMITS.read_text(encoding="utf-8"))
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    for group, kind, _ in _fields(classes["Limits"]):
        node = classes[ast.unparse(kind)]
        summary = (ast.get_docstring(node) or "").replace("\n", " ")
        yield f"\n### {group}\n\n{summary}\n\n{HEAD}\n"
        for name, _, (value, words) in _fields(node):
            key = f"{group}.{name}"
            yield f"| `{key}` | `{value}` | {words} | {tests.get(key, '?')} |\n"


def _fields(node: ast.ClassDef) -> Iterator[tuple[str, ast.expr, tuple[str, str]]]:
    """Yield the name of each field of a dataclass, its type, its default and its docstring."""
    for field, after in pairwise([*node.body, ast.Pass()]):
        if isinstance(field, ast.AnnAssign) and field.value and isinstance(field.target, ast.Name):
            words = ""
            if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
                words = " ".join(str(after.value.value).split())
            yield field.target.id, field.annotation, (_written(field.value), words)


def find_numbers() -> Iterator[Number]:
    """Yield the constants, defaults and literals of all packages."""
    for package in _PACKAGES:
        for file in sorted((CHECKOUT / package).rglob("*.py")):
            parts = file.relative_to(CHECKOUT).with_suffix("").parts
            if "testing" not in parts and file != LIMITS:
                names = parts[1:] if parts[0] == "corpusmill" else parts
                module = ".".join(names).removesuffix(".__init__")
                yield from numbers_of(file.read_text(encoding="utf-8"), module)


def numbers_of(source: str, module: str) -> Iterator[Number]:
    """Yield the integers of a module by which the code may take another way."""
    tree = ast.parse(source)
    for name, value in _constants(tree.body):
        yield Number(module, name, _written(value))
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            for name, default in _defaults(node.args):
                yield Number(module, f"{node.name}({name})", _written(default))
        for compared in _compared(node):
            for literal in _literals(compared):
                yield Number(module, _written(literal), _written(literal))


def _constants(body: Iterable[ast.stmt], prefix: str = "") -> Iterator[tuple[str, ast.expr]]:
    """Yield the constants of a module and of its classes, and large defaults of fields."""
    for node in body:
        if isinstance(node, ast.ClassDef):
            yield from _constants(node.body, f"{prefix}{node.name}.")
        elif isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            target = node.target if isinstance(node, ast.AnnAssign) else node.targets[0]
            pairs: list[tuple[ast.expr, ast.expr]] = [(target, node.value)]
            if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                pairs = list(zip(target.elts, node.value.elts, strict=True))
            named = [(place.id, value) for place, value in pairs if isinstance(place, ast.Name)]
            for name, value in named:
                numbers = integers_of(value)
                if _is_large(numbers) or (numbers and name.isupper()):
                    yield prefix + name, value


def _defaults(arguments: ast.arguments) -> Iterator[tuple[str, ast.expr]]:
    """Yield the large defaults of a function's parameters."""
    places = [*arguments.posonlyargs, *arguments.args]
    first = len(places) - len(arguments.defaults)
    for parameter, default in (
        *zip(places[first:], arguments.defaults, strict=True),
        *zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True),
    ):
        if default is not None and _is_large(integers_of(default)):
            yield parameter.arg, default


def _compared(node: ast.AST) -> list[ast.expr]:
    """Return what a comparison, or a bound of a value, compares."""
    if isinstance(node, ast.Compare):
        return [node.left, *node.comparators]
    if isinstance(node, ast.Call):
        name = getattr(node.func, "id", getattr(node.func, "attr", ""))
        if name in {"min", "max", "minimum", "maximum", "clip"}:
            return node.args
        if name == "Meta":
            return [keyword.value for keyword in node.keywords]
    return []


def _literals(node: ast.expr) -> Iterator[ast.expr]:
    """Yield the large integers that a compared value is, or to which another is added."""
    parts = node.elts if isinstance(node, ast.Tuple | ast.Set | ast.List) else [node]
    numbers = [number for part in parts if (number := _number_of(part)) is not None]
    if numbers:
        if _is_large(numbers):
            yield node
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub | ast.Mult):
        yield from _literals(node.left)
        yield from _literals(node.right)


def integers_of(node: ast.expr) -> list[int]:
    """Return the integers of a value that consists of integers, or [] for any other value.

    Example:
        2**20 and (4, 8) are such values, and {"gzip": 9}, np.uint64(8) and 4 * WORD_BYTES.
    """
    number = _number_of(node)
    if number is not None:
        return [number]
    match node:
        case ast.BinOp(left=left, right=right) if _is_constant(left) and _is_constant(right):
            return [*integers_of(left), *integers_of(right)]
        case ast.Tuple(elts=parts) | ast.List(elts=parts) | ast.Set(elts=parts):
            return _all_integers(parts)
        case ast.Dict(values=parts):
            return _all_integers(parts)
    return []


def _all_integers(parts: list[ast.expr]) -> list[int]:
    numbers = [integers_of(part) for part in parts]
    return [number for each in numbers for number in each] if all(numbers) else []


_OPERATORS: dict[type[ast.operator], Any] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
    ast.LShift: operator.lshift,
}


def _number_of(node: ast.expr) -> int | None:
    """Return the integer that literals alone give, if they do."""
    match node:
        case ast.Constant(value=int(value)) if not isinstance(value, bool):
            return value
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            number = _number_of(operand)
            return None if number is None else -number
        case ast.BinOp(left=left, op=op, right=right):
            one, other = _number_of(left), _number_of(right)
            if one is not None and other is not None and type(op) in _OPERATORS:
                return int(_OPERATORS[type(op)](one, other))
        case ast.Call(func=ast.Attribute(value=ast.Name(id="np"), attr=name), args=[part]):
            return _number_of(part) if name.lstrip("u").startswith("int") else None
    return None


def _is_constant(node: ast.expr) -> bool:
    """Return whether a value consists of integers and of other constants."""
    if isinstance(node, ast.BinOp):
        return _is_constant(node.left) and _is_constant(node.right)
    name = node.id if isinstance(node, ast.Name) else getattr(node, "attr", "")
    return name.isupper() or bool(integers_of(node))


def _is_large(numbers: list[int]) -> bool:
    return any(abs(number) >= LEAST for number in numbers)


def _written(node: ast.expr) -> str:
    return ast.unparse(node).replace(" ** ", "**")


if __name__ == "__main__":
    PAGE.write_text(write_limits(PAGE.read_text(encoding="utf-8")), encoding="utf-8")

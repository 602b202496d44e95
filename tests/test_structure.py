"""The limits that keep the product's code readable: sizes of files and functions, and its rooms."""

import ast
import io
import tokenize
from collections.abc import Iterator
from functools import cache
from inspect import signature

import pytest

from tests.conftest import CHECKOUT
from tests.tools.table_rows import for_rows

_PRODUCT = ("corpusmill", "transforms", "pipeline")
_OUTSIDE_ROOMS = {
    "__init__.py",
    "__main__.py",
    "errors.py",
    "extending.py",
    "hub.py",
    "job.py",
    "knobs.py",
    "outages.py",
    "processors.py",
    "lazy_names.py",
    "location.py",
    "plugins.py",
    "publishing.py",
    "py.typed",
    "synced_files.py",
    "testing.py",
}
_FILE_LINES = 600
_FUNCTION_LINES, _KERNEL_LINES = 40, 60
_PARAMETERS = 8

_NOT_CODE = {
    tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT,
    tokenize.ENDMARKER,
}  # fmt: skip
_Function = ast.FunctionDef | ast.AsyncFunctionDef


def find_long_functions(
    source: str, most: int = _FUNCTION_LINES, most_of_kernels: int = _KERNEL_LINES
) -> Iterator[str]:
    """Yield the functions with too many lines of code, and the number."""
    fewest = min(most, most_of_kernels)
    spans = [(each, (each.end_lineno or 0) + 1 - each.lineno) for each in find_functions(source)]
    # Finding the lines of code takes long, and few functions are long even with their comments.
    long = [function for function, lines in spans if lines > fewest]
    code = find_code_lines(source) if long else set()
    for function in long:
        lines = len(code & set(range(function.lineno, (function.end_lineno or 0) + 1)))
        is_kernel = any("njit" in ast.unparse(name) for name in function.decorator_list)
        if lines > (most_of_kernels if is_kernel else most):
            yield f"{function.name}: {lines} lines"


def find_wide_signatures(source: str) -> Iterator[str]:
    """Yield the functions with too many parameters, and the number."""
    for function in find_functions(source):
        parameters = function.args.posonlyargs + function.args.args + function.args.kwonlyargs
        number = len([name for name in parameters if name.arg not in {"self", "cls"}])
        if number > _PARAMETERS:
            yield f"{function.name}: {number} parameters"


@cache
def find_functions(source: str) -> list[_Function]:
    return [node for node in ast.walk(ast.parse(source)) if isinstance(node, _Function)]


def find_code_lines(source: str) -> set[int]:
    """Return the numbers of the lines with code, without comments and docstrings."""
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    spans = [(token.start[0], token.end[0]) for token in tokens if token.type not in _NOT_CODE]
    # Docstrings, also those of attributes, are expressions that consist of a string.
    docstrings = [
        (node.lineno, node.end_lineno or 0)
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    ]
    return _join(spans) - _join(docstrings)


def _join(spans: list[tuple[int, int]]) -> set[int]:
    return {line for start, end in spans for line in range(start, end + 1)}


def _find_excesses(source: str) -> Iterator[str]:
    """Yield what exceeds a limit in a module."""
    lines = source.count("\n")
    if lines > _FILE_LINES:
        yield f"{lines} lines"
    yield from find_long_functions(source)
    yield from find_wide_signatures(source)


def test_the_library_consists_of_rooms() -> None:
    files = {path.name for path in (CHECKOUT / "corpusmill").iterdir() if path.is_file()}
    assert files <= _OUTSIDE_ROOMS


def test_modules_keep_the_limits() -> None:
    modules = sorted(path for package in _PRODUCT for path in (CHECKOUT / package).rglob("*.py"))
    assert modules
    assert not [
        f"{module.relative_to(CHECKOUT)}: {excess}"
        for module in modules
        for excess in _find_excesses(module.read_text(encoding="utf-8"))
    ]


_SAMPLE = '''
def long(first, /, second, *rest, third=(), **named):
    """A docstring
    of two lines."""
    # A comment.

    text = """A text
    of two lines."""
    return text


@njit(inline="always")
def kernel(self, a, b, c, d, e, f, g, h, i):
    return a
'''


def test_lines_of_code_are_counted_without_comments_and_docstrings() -> None:
    assert find_code_lines(_SAMPLE) == {2, 7, 8, 9, 12, 13, 14}


def test_long_functions_and_wide_signatures_are_found() -> None:
    assert list(find_long_functions(_SAMPLE, 4, 2)) == []
    assert list(find_long_functions(_SAMPLE, 3, 2)) == ["long: 4 lines"]
    assert list(find_long_functions(_SAMPLE, 3, 1)) == ["long: 4 lines", "kernel: 2 lines"]
    assert list(find_wide_signatures(_SAMPLE)) == ["kernel: 9 parameters"]


def test_no_two_files_of_tests_have_one_name() -> None:
    """Pytest imports them by their names alone, and could collect only one of them."""
    names = [path.name for path in (CHECKOUT / "tests").rglob("test_*.py")]
    assert sorted(names) == sorted(set(names))


# What deletes files, or gives one the name of another, and where it may be called.
_DELETING = {
    "unlink",
    "rmtree",
    "rename",
    "renames",
    "removedirs",
    "hardlink_to",
    "delete",
    "remove",
}
_ALLOWED = {
    "corpusmill/dataset/ownership.py": "decides what is ours",
    "corpusmill/location.py": "does it on this machine, for ownership",
    "corpusmill/synced_files.py": "gives names to files that it has just written, under a lock",
    "transforms/storage/files.py": "does it on other file systems, for ownership",
    "pipeline/folders/file_run.py": "empties a folder with the run's mark",
    "corpusmill/reading/cache/shard_cache.py": "works in a scratch folder that it has made",
    "corpusmill/reading/cache/pieces.py": "renames a note that it has just written",
    "corpusmill/arrays/kernel_cache.py": "removes compiled kernels, known by their suffix",
    "corpusmill/arrays/numba_cache.py": "replaces a compiled kernel, known by its digest",
    "corpusmill/corpus/hub_data_sets.py": "renames a download that it has just written",
    "pipeline/runners/beam_pipelines.py": "removes the temporary folder of Beam's pipeline",
}


def find_deletions(source: str) -> Iterator[str]:
    """Yield the calls that may delete a file, or replace one."""
    for node in ast.walk(ast.parse(source)):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
            continue
        owner, name = ast.unparse(node.func.value), node.func.attr
        if owner in {"np", "sys.meta_path"} or owner.startswith("self._workers"):
            continue
        # That of text has two arguments.
        is_replaced = name == "replace" and len(node.args) == 1 and not node.keywords
        if (
            name in _DELETING
            or (is_replaced and owner != "self")
            or (owner, name) == ("os", "link")
        ):
            yield f"{owner}.{name}, line {node.lineno}"


def test_what_lies_behind_the_second_door_is_there() -> None:
    for name in (CHECKOUT / "tests" / "second_door.txt").read_text().splitlines():
        file, _, test = name.partition("[")[0].partition("::")
        if name and not name.startswith("#"):
            assert (CHECKOUT / file).exists(), name
            assert not test or f"def {test}(" in (CHECKOUT / file).read_text(), name


def test_a_table_shows_each_row_that_fails() -> None:
    @for_rows(("left", "right"), [(1, 1), (2, 3), (4, 5)])
    def compare(left: int, right: int, other: int) -> None:
        assert left == right + other

    with pytest.raises(AssertionError, match=r"(?ms)\A\(2, 3\): .*^\(4, 5\): "):
        compare(other=0)
    assert [*signature(compare).parameters] == ["other"]


def test_only_what_decides_about_ownership_deletes_and_overwrites() -> None:
    found = {
        str(path.relative_to(CHECKOUT)): list(find_deletions(path.read_text()))
        for folder in _PRODUCT
        for path in sorted((CHECKOUT / folder).rglob("*.py"))
    }
    assert {name: calls for name, calls in found.items() if calls and name not in _ALLOWED} == {}
    assert [name for name in _ALLOWED if not found[name]] == []
    assert list(find_deletions("import os\nos.replace(a, b)\nshutil.rmtree(a)\nb.replace(c)")) == [
        "shutil.rmtree, line 3",
        "b.replace, line 4",
    ]

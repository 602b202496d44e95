"""Count the code lines of the product, as `make lint` reports them.

    python -m tests.tools.code_lines [FOLDER ...]

A line counts if it holds a token that is neither a comment nor a docstring.
"""

import ast
import io
import sys
import tokenize
from pathlib import Path

_PRODUCT = ("corpusmill", "transforms", "pipeline")
_NO_CODE = {
    tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT,
    tokenize.ENDMARKER,
}  # fmt: skip


def count_code_lines(source: str) -> int:
    """Count the lines of a module that hold code.

    Args:
        source: the module's text.

    Example:
        A docstring, a blank line, a comment and `x = 1  # one` are one code line.
    """
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in _NO_CODE:
            lines.update(range(token.start[0], token.end[0] + 1))
    return len(lines - _docstring_lines(ast.parse(source)))


def _docstring_lines(module: ast.Module) -> set[int]:
    """Return the lines of strings that stand alone: docstrings."""
    return {
        line
        for node in ast.walk(module)
        if isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }


def main() -> None:
    """Print the code lines and files of each folder, and of all."""
    total = number = 0
    for folder in sys.argv[1:] or _PRODUCT:
        files = sorted(Path(folder).rglob("*.py"))
        lines = sum(count_code_lines(file.read_text()) for file in files)
        sys.stdout.write(f"{folder}: {lines:,} code lines in {len(files):,} files\n")
        total, number = total + lines, number + len(files)
    sys.stdout.write(f"together: {total:,} code lines in {number:,} files\n")


if __name__ == "__main__":
    main()

"""What is put before records: special tokens, and texts with the values of fields."""

from corpusmill.corpus.groups import Grouping, fill, has_open_brace, list_fields


def test_templates_are_filled() -> None:
    values: dict[str, list[str | None]] = {"path": ["a.py", None], "meta.n": ["1", "2"]}
    for template, fields, texts, is_open in (
        ("{path}:", ["path"], ["a.py:", ":"], False),
        (r"# {meta.n}\n\t{path}", ["meta.n", "path"], ["# 1\n\ta.py", "# 2\n\t"], False),
        ("{path}{path}", ["path", "path"], ["a.pya.py", ""], False),
        ("plain", [], ["plain", "plain"], False),
        ("{path", [], ["{path", "{path"], True),
        ("{}", [], ["{}", "{}"], True),
    ):
        assert list_fields(template) == fields
        assert fill(template, 2, values) == texts
        assert has_open_brace(template) == is_open


def test_values_never_become_added_tokens() -> None:
    """The template alone is divided, and its longest tokens are found."""
    grouping = Grouping("repo", None, 9, ("<s><s>{path}\\n", "<r>{repo}<s>"))
    assert grouping.divide(["<s><s>", "<s>", "<r>"]) == [
        ["<s><s>", "{path}\\n"],
        ["<r>", "{repo}", "<s>"],
    ]
    assert grouping.divide(["path", "repo", "o", "s>"])[1] == ["<r>{repo}<", "s>"]
    assert grouping.divide([]) == [["<s><s>{path}\\n"], ["<r>{repo}<s>"]]

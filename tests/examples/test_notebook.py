"""The notebook of examples/, executed."""

from pathlib import Path
from typing import Any

import pytest

from tests.conftest import CHECKOUT
from tests.tools.lazily import LazyModule

nbclient, nbformat = LazyModule("nbclient"), LazyModule("nbformat")


@pytest.fixture(scope="module")
def cells() -> list[Any]:
    """The cells of code, with what they show."""
    path = CHECKOUT / "examples" / "first_data_set.ipynb"
    notebook = nbformat.read(path, as_version=4)
    client = nbclient.NotebookClient(notebook, resources={"metadata": {"path": str(path.parent)}})
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(CHECKOUT))
        client.execute()
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def shown(cell: Any, kind: str) -> str:
    """All that a cell shows in one form, such as "text/html", or prints ("stdout")."""
    outputs = [output for output in cell.outputs if output.get("name", kind) == kind]
    return "".join(output.get("text") or output.data.get(kind, "") for output in outputs)


def test_the_data_set_and_the_corpus_show_themselves(cells: list[Any]) -> None:
    [report] = [cell for cell in cells if "inspect_corpus" in cell.source]
    [build] = [cell for cell in cells if "validation_share" in cell.source]
    assert "tokens per document" in shown(report, "text/html")
    page = shown(build, "text/html")
    assert "<b>bert examples</b>" in page
    assert "validation, " in page


def test_progress_and_choices_leave_no_trace_in_the_notebook(cells: list[Any]) -> None:
    for cell in cells:
        errors = [line for line in shown(cell, "stderr").splitlines() if line]
        assert all(line.startswith("finding: ") for line in errors)
        displayed = [output for output in cell.outputs if output.output_type == "display_data"]
        assert all(output.data == {"text/plain": ""} for output in displayed)
    assert any(cell.outputs and cell.outputs[0].output_type == "display_data" for cell in cells)


def test_a_mistake_is_one_line_and_the_notebook_is_kept_without_outputs(cells: list[Any]) -> None:
    [mistake] = [cell for cell in cells if "UserError" in cell.source]
    assert shown(mistake, "stdout").startswith("max_seq_len=: there is no such option. Did you")
    path = Path(CHECKOUT, "examples", "first_data_set.ipynb")
    kept = nbformat.read(path, as_version=4)
    assert not any(cell.get("outputs") or cell.get("execution_count") for cell in kept.cells)

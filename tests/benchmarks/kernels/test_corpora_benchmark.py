"""The comparison of formats runs, and compares like with like."""

from pathlib import Path

from benchmarks.kernels.corpus_formats import FORMATS, count_documents, make_records, measure


def test_each_format_is_measured_and_holds_the_same_documents(tmp_path: Path) -> None:
    table = measure(FORMATS, tmp_path, 200_000, 1)
    assert [*table.columns[0].cells] == [of.name for of in FORMATS]
    records = make_records(tmp_path / "corpus-200000.txt")
    for of in FORMATS:
        assert count_documents(tmp_path / f"corpus-200000-{of.name}") == len(records) > 50

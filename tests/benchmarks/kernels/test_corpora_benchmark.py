"""The comparison of corpus formats runs, and every format holds the same documents."""

from pathlib import Path

from benchmarks.kernels.corpus_formats import FORMATS, count_documents, make_records, measure


def test_each_format_is_measured_and_holds_the_same_documents(tmp_path: Path) -> None:
    rows = list(measure(FORMATS, tmp_path, 200_000, 1))
    assert [row[0] for row in rows] == [format_.name for format_ in FORMATS]
    records = make_records(tmp_path / "corpus-200000.txt")
    for format_ in FORMATS:
        assert count_documents(tmp_path / f"corpus-200000-{format_.name}") == len(records) > 50

"""Folders that Spark itself writes; skipped where it is not installed."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from corpusmill.corpus.document_options import DocumentOptions
from corpusmill.errors import UserError
from tests.pipeline.recipe.test_files_of_programs import read_as_given

spark_sql = pytest.importorskip(
    "pyspark.sql", reason="Spark is not installed (pip install pyspark)"
)
TEXTS = [f'Boat {n}, the "Ida", came up the river; it rained.\tA line.' for n in range(60)]
OPTIONS = DocumentOptions(sentence_rule="document")


@pytest.fixture(scope="module")
def frame() -> Iterator[Any]:
    builder = spark_sql.SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    with builder.getOrCreate() as session:
        yield session.createDataFrame(list(enumerate(TEXTS)), ["id", "text"]).coalesce(1)


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("parquet", {}),
        ("parquet", {"compression": "zstd"}),
        ("json", {}),
        ("json", {"compression": "gzip"}),
        ("json", {"compression": "bzip2"}),
        ("csv", {"header": True}),
        ("csv", {"header": True, "sep": "\t"}),
        ("csv", {"header": True, "sep": ";", "quoteAll": True}),
    ],
)
def test_folders_of_spark_are_read_as_they_are(
    kind: str, options: dict[str, Any], frame: Any, tmp_path: Path
) -> None:
    frame.write.format(kind).options(**options).save(str(tmp_path / "out"))
    assert (tmp_path / "out" / "_SUCCESS").exists()
    assert read_as_given(tmp_path / "out", OPTIONS) == TEXTS


@pytest.mark.parametrize(
    ("kind", "options", "what"),
    [("orc", {}, "an ORC file"), ("json", {"compression": "lz4"}, "no .lz4 file")],
)
def test_what_is_not_read_of_spark_is_refused(
    kind: str, options: dict[str, Any], what: str, frame: Any, tmp_path: Path
) -> None:
    frame.write.format(kind).options(**options).save(str(tmp_path / "out"))
    with pytest.raises(UserError, match=what):
        read_as_given(tmp_path / "out", OPTIONS)

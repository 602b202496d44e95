"""Token files in stores, and in several folders of one."""

from pathlib import Path

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from corpusmill.formats.output_options import OutputOptions
from tests.tools.small_datasets import OBJECTIVES, Recipe, write_dataset
from tests.tools.token_folders import read_files

ROWS = [[7, 8, 9], [5], [6, 2]]


def test_files_in_a_store_are_read_as_on_a_disk(tmp_path: Path) -> None:
    table = pa.table({"input_ids": ROWS})
    (tmp_path / "a").mkdir()
    pq.write_table(table, tmp_path / "a" / "a.parquet")
    with pa.ipc.new_file(tmp_path / "a" / "b.arrow", table.schema) as writer:
        writer.write_table(table)
    (tmp_path / "a" / "c.jsonl").write_text("".join(f'{{"input_ids": {row}}}\n' for row in ROWS))
    (tmp_path / "a" / "d.ds").write_bytes(np.array([7, 8], "<u2").tobytes())
    for output_format in ("mds", "tfrecord"):
        recipe = Recipe(OBJECTIVES["gpt_pack"], OutputOptions(output_format=output_format))
        write_dataset(tmp_path / output_format, recipe)
    store = fsspec.filesystem("memory")
    store.put(str(tmp_path), "/audited", recursive=True)
    try:
        for name in ("table", "nanotron", "mds", "tfrecord", "corpusmill"):
            here = read_files(tmp_path, name, "uint16")
            there = read_files("memory://audited", name, "uint16")
            assert here
            assert {file: read[:4] for file, read in here.items()} == {
                file: read[:4] for file, read in there.items()
            }
    finally:
        store.rm("/audited", recursive=True)

"""Files with nothing but ids, and an index beside them or none, as tools write them."""

import gzip
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from corpusmill.audit.formats import flat
from corpusmill.formats.token_files import MEGATRON_HEADER, MEGATRON_MAGIC
from tests.tools.table_rows import for_rows
from tests.tools.token_folders import ReadFile, read_file, read_files

ROWS = [[7, 8, 9, 50000], [], [5], [6, 2]]
FLAT = [token for row in ROWS for token in row]
ENDS = np.cumsum([*map(len, ROWS)])


def write_megatron(
    folder: Path,
    dtype: str = "<u2",
    code: int = 8,
    rows: list[list[int]] = ROWS,
    modes: bool = False,
) -> None:
    lengths = np.array([*map(len, rows)], "<i4")
    begins = (np.cumsum(lengths) - lengths).astype("<i8") * np.dtype(dtype).itemsize
    head = MEGATRON_HEADER.pack(MEGATRON_MAGIC, 1, code, len(rows), len(rows) + 1)
    documents = np.arange(len(rows) + 1, dtype="<i8")
    index = head + lengths.tobytes() + begins.tobytes() + documents.tobytes()
    (folder / "a.idx").write_bytes(index + bytes(len(rows) if modes else 0))
    ids = [token for row in rows for token in row]
    (folder / "a.bin").write_bytes(np.array(ids).astype(dtype).tobytes())


def write_nanotron(folder: Path) -> None:
    (folder / "a.ds").write_bytes(np.array(FLAT, "<u2").tobytes())
    (folder / "a.ds.index").write_bytes(ENDS.astype("<u8").tobytes())
    (folder / "a.ds.loss").write_bytes(bytes([1, 1, 0, 1, 1, 0, 1]))
    (folder / "a.ds.metadata").write_text(f"gpt2|2\n{len(FLAT)}\n0.1 K")


def write_table(folder: Path) -> None:
    """Ids of OLMo, without the header of NumPy's arrays, and a table of documents."""
    (folder / "a.npy").write_bytes(np.array(FLAT, "<u2").tobytes())
    lines = "".join(
        f"{end - len(row)},{end},id,file,1\n" for end, row in zip(ENDS, ROWS, strict=True)
    )
    (folder / "a.csv.gz").write_bytes(gzip.compress(lines.encode()))


def write_lengths(folder: Path) -> None:
    (folder / "a.bin").write_bytes(np.array(FLAT, "<u2").tobytes())
    (folder / "a.lengths").write_bytes(np.array([*map(len, ROWS)], "<i4").tobytes())


def write_array(folder: Path) -> None:
    np.save(folder / "a.npy", np.array(FLAT, "<u2"))


def write_llm_c(folder: Path) -> None:
    head = np.zeros(256, "<i4")
    head[:3] = 20240520, 1, len(FLAT)
    (folder / "a.bin").write_bytes(head.tobytes() + np.array(FLAT, "<u2").tobytes())


WRITERS: dict[str, tuple[str, Callable[[Path], None], list[list[int]]]] = {
    "megatron": ("megatron", write_megatron, ROWS),
    "nanotron": ("nanotron", write_nanotron, ROWS),
    "table": ("tokens", write_table, ROWS),
    "lengths": ("tokens", write_lengths, ROWS),
    "array": ("tokens", write_array, [FLAT]),
    "llm.c": ("tokens", write_llm_c, [FLAT]),
}


def written(tmp_path: Path, name: str) -> ReadFile:
    folder = tmp_path / name
    folder.mkdir()
    WRITERS[name][1](folder)
    return read_file(folder, WRITERS[name][0], "uint16")


@for_rows("name", [*WRITERS])
@pytest.mark.parametrize("step", [3, 2**20])
def test_rows_are_those_of_the_index(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int, name: str
) -> None:
    monkeypatch.setattr(flat, "BATCH_TOKENS", step)
    monkeypatch.setattr(flat, "INDEX_NUMBERS", step)
    file = written(tmp_path, name)
    rows = WRITERS[name][2]
    assert file.rows == rows
    assert file.numbers == [*range(len(rows))]
    assert not file.faults
    assert file.file
    assert (file.file.tokens, file.file.is_stream) == (len(FLAT), len(rows) == 1)
    learned = [[1, 1, 0, 1], [], [1], [0, 1]]
    assert file.columns == ({"learned": learned} if name == "nanotron" else {})
    assert file.file.tokenizer == ("gpt2" if name == "nanotron" else "")


def test_each_type_of_megatron_is_read(tmp_path: Path) -> None:
    rows = [[7, 8], [100]]
    for code, dtype in enumerate(["u1", "i1", "<i2", "<i4", "<i8", "", "", "<u2"], 1):
        if dtype:
            write_megatron(tmp_path, dtype, code, rows, modes=code == 8)
            file = read_file(tmp_path, "megatron")
            assert (file.rows, file.faults) == (rows, [])


def test_the_type_of_ids_is_judged(tmp_path: Path) -> None:
    ids = np.random.default_rng(0).integers(0, 50_000, 4000)
    for dtype in ("<u2", "<u4", "<i8"):
        (tmp_path / "a.bin").write_bytes(ids.astype(dtype).tobytes())
        file = read_file(tmp_path, "tokens")
        assert file.rows == [ids.tolist()]
        assert file.file
        assert np.dtype(file.file.dtype).itemsize == np.dtype(dtype).itemsize


def edit(name: str, change: Callable[[bytes], bytes]) -> Callable[[Path], None]:
    def edit_file(folder: Path) -> None:
        (folder / name).write_bytes(change((folder / name).read_bytes()))

    return edit_file


def put(place: int, number: int, dtype: str) -> Callable[[bytes], bytes]:
    content = np.array([number], dtype).tobytes()
    return lambda old: old[:place] + content + old[place + len(content) :]


@for_rows(
    ("name", "damage", "rows", "fault"),
    [
        ("megatron", edit("a.bin", lambda c: c[:-2]), 3, "names 7 ids and more, and it has 6"),
        ("megatron", edit("a.bin", lambda c: c + c), 4, "ends after 7 of 14 ids"),
        ("megatron", edit("a.bin", lambda c: c[:-1]), 3, "ends within an id"),
        ("megatron", edit("a.bin", lambda _: b""), 0, "names"),
        ("megatron", edit("a.idx", lambda c: c[:20]), 0, "within its header"),
        ("megatron", edit("a.idx", lambda c: c[:40]), 0, "too short"),
        ("megatron", edit("a.idx", lambda c: c + c), 4, "too long"),
        ("megatron", edit("a.idx", lambda c: b"x" + c[1:]), 0, "no index of Megatron-LM"),
        ("megatron", edit("a.idx", lambda c: c[:17] + b"\x06" + c[18:]), 0, "float"),
        ("megatron", edit("a.idx", put(34, -4, "<i4")), 0, "negative length"),
        ("megatron", edit("a.idx", put(34, 2**31 - 1, "<i4")), 0, "names 2,147,483"),
        ("megatron", edit("a.idx", put(18, 2**60, "<i8")), 0, "too short"),
        ("megatron", edit("a.idx", put(58, 9, "<i8")), 4, "lets 1 sequences begin elsewhere"),
        ("nanotron", edit("a.ds.index", lambda c: c[:-8]), 3, "ends after 5 of 7 ids"),
        (
            "nanotron",
            edit("a.ds.index", put(24, 2**62, "<i8")),
            3,
            "names 4,611,686,018,427,387,904 ids and more, and it has 7",
        ),
        ("nanotron", edit("a.ds.index", put(16, 2, "<i8")), 0, "end before it begins"),
        ("nanotron", edit("a.ds.index", put(16, -2, "<i8")), 0, "end before it begins"),
        ("nanotron", edit("a.ds.metadata", lambda _: b"gpt2\n9\n"), 4, "says 9 ids, and it has 7"),
        ("nanotron", edit("a.ds.metadata", lambda _: b"\xff\n\n"), 4, ""),
        ("nanotron", edit("a.ds.loss", lambda c: c[:-1]), 4, ".loss has 6 bytes for 7 ids"),
        ("nanotron", edit("a.ds", lambda c: c[:-1]), 3, "ends within an id"),
        ("table", edit("a.npy", lambda c: c[:-2]), 3, "names 7 ids"),
        (
            "table",
            edit("a.csv.gz", lambda c: gzip.compress(gzip.decompress(c).replace(b"5,7", b"6,7"))),
            4,
            "lets 1 documents begin elsewhere",
        ),
        ("table", edit("a.csv.gz", lambda _: gzip.compress(b"0,3,a\n3,1,b\n")), 2, ""),
        ("lengths", edit("a.lengths", put(4, -1, "<i4")), 0, "negative"),
        ("lengths", edit("a.lengths", lambda c: c[:-4]), 3, "ends after 5 of 7 ids"),
        ("array", edit("a.npy", lambda c: c[:-2]), 1, "header says 7 ids, and it has 6"),
        ("llm.c", edit("a.bin", lambda c: c[:-2]), 1, "header says 7 ids, and it has 6"),
    ],
)
def test_damage_is_a_fault(
    tmp_path: Path, name: str, damage: Callable[[Path], None], rows: int, fault: str
) -> None:
    folder = tmp_path / str(len([*tmp_path.iterdir()]))
    folder.mkdir()
    token_format, write, _ = WRITERS[name]
    write(folder)
    damage(folder)
    file = read_file(folder, token_format, "uint16")
    assert len(file.rows) == rows
    assert not fault or any(fault in text for text in file.faults), file.faults


def test_an_array_of_something_else_is_refused(tmp_path: Path) -> None:
    for array in (np.zeros(4), np.asfortranarray(np.zeros((2, 2), int)), np.array([{}], object)):
        np.save(tmp_path / "a.npy", array, allow_pickle=True)
        assert "no array of ids" in read_file(tmp_path, "tokens").faults[0]


def test_what_megatron_writes_is_read(tmp_path: Path) -> None:
    builder = pytest.importorskip(
        "megatron.core.datasets.indexed_dataset", reason="megatron-core is not installed"
    )
    torch = pytest.importorskip("torch", reason="torch is not installed")
    made = builder.IndexedDatasetBuilder(str(tmp_path / "a.bin"), dtype=np.uint16)
    for row in ROWS:
        made.add_document(torch.tensor(row, dtype=torch.int64), [len(row)])
    made.finalize(str(tmp_path / "a.idx"))
    file = read_file(tmp_path, "megatron")
    assert (file.rows, file.faults) == (ROWS, [])


def test_what_datatrove_writes_is_read(tmp_path: Path) -> None:
    tokenizer = pytest.importorskip(
        "datatrove.pipeline.tokens.tokenizer", reason="datatrove is not installed"
    )
    file = tokenizer.TokenizedFile(
        str(tmp_path), "a.ds", save_loss_metadata=True, save_final_metadata=True
    )
    for row in ROWS:
        file.write_bytes(np.array(row, "<u2").tobytes())
        file.write_loss_bytes(bytes([1] * len(row)))
    file.close()
    read = read_files(tmp_path, "nanotron")["a.ds"]
    assert (read.rows, read.faults) == (ROWS, [])


def test_the_table_of_olmo_is_read(tmp_path: Path) -> None:
    utils = pytest.importorskip("olmo_core.data.utils", reason="ai2-olmo-core is not installed")
    rows = [[7, 8, 9, 2], [5, 2], [6, 2]]
    ids = np.memmap(tmp_path / "a.npy", mode="w+", dtype=np.uint32, shape=(8,))
    ids[:] = [token for row in rows for token in row]
    ids.flush()
    utils.write_document_indices(tmp_path / "a.npy", dtype=np.uint32, eos_token_id=2)
    file = read_file(tmp_path, "tokens")
    assert (file.rows, file.faults) == (rows, [])

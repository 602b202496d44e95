"""Files with nothing but ids, and an index beside them or none, as tools write them."""

import gzip
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from corpusmill.audit.formats import flat, raw
from corpusmill.formats.token_files import MEGATRON_HEADER, MEGATRON_MAGIC
from tests.tools.table_rows import check_rows
from tests.tools.token_folders import (
    Damage,
    Rows,
    check_damages,
    cut,
    empty,
    put,
    read_file,
    swap,
)

ROWS = [[7, 8, 9, 50000], [], [5], [6, 2]]
FLAT = np.array([token for row in ROWS for token in row])
ENDS = np.cumsum([*map(len, ROWS)])


def write_ids(path: Path, ids: np.ndarray = FLAT, dtype: str = "<u2", head: bytes = b"") -> None:
    path.write_bytes(head + ids.astype(dtype).tobytes())


def write_megatron(
    folder: Path, dtype: str = "<u2", code: int = 8, ids: np.ndarray = FLAT, modes: int = 0
) -> None:
    lengths = np.array([*map(len, ROWS)], "<i4")
    begins = (ENDS - lengths).astype("<i8") * np.dtype(dtype).itemsize
    head = MEGATRON_HEADER.pack(MEGATRON_MAGIC, 1, code, len(ROWS), len(ROWS) + 1)
    documents = np.arange(len(ROWS) + 1, dtype="<i8")
    parts = (head, lengths.tobytes(), begins.tobytes(), documents.tobytes(), bytes(modes))
    (folder / "a.idx").write_bytes(b"".join(parts))
    write_ids(folder / "a.bin", ids, dtype)


def write_nanotron(folder: Path) -> None:
    write_ids(folder / "a.ds")
    (folder / "a.ds.index").write_bytes(ENDS.astype("<u8").tobytes())
    (folder / "a.ds.loss").write_bytes(bytes([1, 1, 0, 1, 1, 0, 1]))
    (folder / "a.ds.metadata").write_text(f"gpt2|2\n{len(FLAT)}\n0.1 K")


def write_table(folder: Path) -> None:
    """Ids of OLMo, without the header of NumPy's arrays, and a table of documents."""
    write_ids(folder / "a.npy")
    bounds = zip([0, *ENDS], ENDS, strict=False)
    lines = "".join(f"{begin},{end},id,file,1\n" for begin, end in bounds)
    (folder / "a.csv.gz").write_bytes(gzip.compress(lines.encode()))


def write_lengths(folder: Path) -> None:
    write_ids(folder / "a.bin")
    (folder / "a.lengths").write_bytes(np.array([*map(len, ROWS)], "<i4").tobytes())


def write_llm_c(folder: Path) -> None:
    head = np.zeros(256, "<i4")
    head[:3] = 20240520, 1, len(FLAT)
    write_ids(folder / "a.bin", head=head.tobytes())


WRITERS: dict[str, tuple[str, Callable[[Path], None], Rows]] = {
    "megatron": ("megatron", write_megatron, ROWS),
    "nanotron": ("nanotron", write_nanotron, ROWS),
    "table": ("tokens", write_table, ROWS),
    "lengths": ("tokens", write_lengths, ROWS),
    "array": ("tokens", lambda f: np.save(f / "a.npy", FLAT.astype("<u2")), [FLAT.tolist()]),
    "llm.c": ("tokens", write_llm_c, [FLAT.tolist()]),
}


@pytest.mark.parametrize("step", [3, 2**20])
def test_rows_are_those_of_the_index(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    monkeypatch.setattr(flat, "BATCH_TOKENS", step)
    for module in (flat, raw):
        monkeypatch.setattr(module, "INDEX_NUMBERS", step)

    def check(name: str) -> None:
        token_format, write, rows = WRITERS[name]
        folder = tmp_path / name
        folder.mkdir()
        write(folder)
        file = read_file(folder, token_format, "uint16")
        assert (file.rows, file.numbers, file.faults) == (rows, [*range(len(rows))], [])
        [opened] = file.files
        assert (opened.tokens, opened.is_stream) == (len(FLAT), len(rows) == 1)
        learned = [[1, 1, 0, 1], [], [1], [0, 1]]
        is_nanotron = name == "nanotron"
        assert file.columns == ({"learned": learned} if is_nanotron else {})
        assert opened.tokenizer == ("gpt2" if is_nanotron else "")

    check_rows(WRITERS, check)


def test_each_type_is_read_or_judged(tmp_path: Path) -> None:
    for code, dtype in enumerate(["u1", "i1", "<i2", "<i4", "<i8", "", "", "<u2"], 1):
        if dtype:
            write_megatron(tmp_path, dtype, code, FLAT % 100, len(ROWS) * (code == 8))
            file = read_file(tmp_path, "megatron")
            assert (file.rows, file.faults) == ([[n % 100 for n in row] for row in ROWS], [])
    ids = np.random.default_rng(0).integers(0, 50_000, 4000)
    for dtype in ("<u2", "<u4", "<i8"):
        write_ids(tmp_path / "a.bin", ids, dtype)
        file = read_file(tmp_path, "tokens")
        assert file.rows == [ids.tolist()]
        assert np.dtype(file.files[0].dtype).itemsize == np.dtype(dtype).itemsize


DAMAGES: dict[str, list[Damage]] = {
    "megatron": [
        ("a.bin", cut(2), ROWS[:3], "names 7 ids and more, and it has 6"),
        ("a.bin", lambda content: content * 2, ROWS, "ends after 7 of 14 ids"),
        ("a.bin", cut(1), ROWS[:3], "ends within an id"),
        ("a.bin", empty, [], "names"),
        ("a.idx", lambda content: content[:20], [], "within its header"),
        ("a.idx", lambda content: content[:40], [], "too short"),
        ("a.idx", lambda content: content * 2, ROWS, "too long"),
        ("a.idx", swap("M", "x"), [], "no index of Megatron-LM"),
        ("a.idx", put(17, 6, "u1"), [], "float"),
        ("a.idx", put(34, -4, "<i4"), [], "a row end before it begins"),
        ("a.idx", put(34, 2**31 - 1, "<i4"), [], "names 2,147,483"),
        ("a.idx", put(18, 2**60, "<i8"), [], "too short"),
        ("a.idx", put(58, 9, "<i8"), ROWS, "lets 1 sequences begin elsewhere"),
    ],
    "nanotron": [
        ("a.ds.index", cut(8), ROWS[:3], "ends after 5 of 7 ids"),
        ("a.ds.index", put(24, 2**62, "<i8"), ROWS[:3], "ids and more, and it has 7"),
        ("a.ds.index", put(16, -2, "<i8"), [], "a row end before it begins"),
        ("a.ds.metadata", lambda _: b"\xff\n9\n", ROWS, "it has 7 ids, and 9 by what it says"),
        ("a.ds.loss", cut(1), ROWS, ".loss has 6 bytes for 7 ids"),
        ("a.ds", cut(1), ROWS[:3], "ends within an id"),
    ],
    "table": [
        ("a.npy", cut(2), ROWS[:3], "names 7 ids"),
        ("a.csv.gz", cut(9), [], "ended before the end-of-stream marker"),
        ("a.csv.gz", lambda _: gzip.compress(b"0,4\n4,4\n4,5\n6,7"), ROWS, "1 documents begin"),
        ("a.csv.gz", lambda _: gzip.compress(b"0,4\n4,1\n"), [], "a row end before it begins"),
        ("a.csv.gz", lambda _: gzip.compress(b"0,4\n4"), [], "inhomogeneous"),
        ("a.csv.gz", lambda _: gzip.compress(b"0,4\n4,b"), [], "invalid literal"),
        ("a.csv.gz", lambda _: gzip.compress(b"0,9999999999999999999999"), [], "too large"),
        ("a.csv.gz", lambda _: gzip.compress(b"1" * 200_000), [], "field larger"),
    ],
    "lengths": [
        ("a.lengths", put(4, -1, "<i4"), [], "a row end before it begins"),
        ("a.lengths", cut(4), ROWS[:3], "ends after 5 of 7 ids"),
    ],
    "array": [
        ("a.npy", cut(2), [FLAT[:-1].tolist()], "it has 6 ids, and 7 by what it says"),
        ("a.npy", lambda content: content[:9], [], "expected 2 bytes"),
        ("a.npy", swap("'<u2'", "'<f2'"), [], "no array of ids"),
        ("a.npy", swap("'<u2'", "'|O' "), [], "no array of ids"),
        ("a.npy", swap("False", "True "), [], "no array of ids"),
        # What NumPy says of it depends on Python's version.
        ("a.npy", swap("{", "x"), [], ""),
    ],
    "llm.c": [("a.bin", cut(2), [FLAT[:-1].tolist()], "it has 6 ids, and 7 by what it says")],
}  # fmt: skip


def test_damage_is_a_fault(tmp_path: Path) -> None:
    def check(name: str) -> None:
        token_format, write, _ = WRITERS[name]
        (tmp_path / name).mkdir()
        check_damages(tmp_path / name, token_format, write, DAMAGES[name], "uint16")

    check_rows(DAMAGES, check)

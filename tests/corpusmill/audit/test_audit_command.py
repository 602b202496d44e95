"""The command itself: what it takes, prints, writes and refuses."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.tools.jobs import build, run_any, run_here
from tests.tools.knobs import knobs
from tests.tools.token_files import (
    BEGIN,
    END,
    STREAMS,
    WITH_COLUMNS,
    WITH_DOCUMENTS,
    encode_texts,
    list_texts,
    save_tokenizer,
    write_megatron,
    write_nanogpt,
    write_nanotron,
    write_olmo,
)


@pytest.fixture
def files(tmp_path: Path) -> Path:
    for name, write in (("mega", write_megatron), ("nano", write_nanogpt), ("olmo", write_olmo)):
        (tmp_path / name).mkdir()
        write(tmp_path / name, encode_texts(60), {})
    return tmp_path


def test_reports_are_written_and_nothing_else(files: Path) -> None:
    before = sorted(files.rglob("*"))
    page, numbers = files / "page.html", files / "numbers.json"
    for _ in range(2):  # an earlier report is written over
        outcome = run_here("audit", files / "mega", "--html", page, "--json", numbers)
    assert sorted(path for path in files.rglob("*") if path not in before) == [numbers, page]
    for line in ("megatron of 1 file, ids of int32", "documents", "no findings", "longest row"):
        assert line in outcome.output
    report = json.loads(numbers.read_text())
    assert report["conventions"]["end"] == END
    assert report["counts"]["rows"] == 60
    assert report["findings"] == []
    assert "No findings." in page.read_text()


def test_a_file_is_audited_with_its_index(files: Path) -> None:
    for name in ("part.bin", "part.idx"):
        outcome = run_here("audit", files / "mega" / name)
        assert "documents            60" in outcome.output
    outcome = run_here(
        "audit", files / "mega" / "part.bin", "--format", "tokens", "--dtype", "int32"
    )
    assert "documents" not in outcome.output


def test_strict_fails_with_findings(files: Path, tmp_path: Path) -> None:
    tokenizer = save_tokenizer(tmp_path / "tokenizer")
    run_here("audit", files / "mega", "--tokenizer", tokenizer, "--strict")
    (files / "mega" / "part.bin").write_bytes((files / "mega" / "part.bin").read_bytes()[:-8])
    outcome = run_here("audit", files / "mega", "--strict", status=1)
    assert "1 of 1 files are cut or contradict themselves" in outcome.output


def test_a_sample_is_read(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("corpusmill.audit.formats.flat.BATCH_TOKENS", 500)
    report = files / "numbers.json"
    run_here("audit", files / "mega", "--sample", "0.25", "--json", report)
    counts = json.loads(report.read_text())["counts"]
    assert 5 < counts["rows"] < 30


def test_mistakes_are_refused_with_one_message(files: Path) -> None:
    (files / "empty").mkdir()
    (files / "mine.json").write_text("{}")
    (files / "bad").mkdir()
    (files / "bad" / "a.idx").write_bytes(b"x" * 100)
    (files / "bad" / "a.bin").write_bytes(b"x" * 100)
    for arguments, parts in (
        ((files / "no",), ("there is no such file or folder",)),
        ((files / "empty",), ("there is no such file or folder",)),
        ((files / "mega" / "no.bin",), ("there is no such file or folder",)),
        ((files / "mega", files / "nano"), ("several formats: megatron, tokens", "--format")),
        ((files / "mega", "--json", files / "mine.json"), ("not one that this command writes",)),
        ((files / "bad",), ("no index of Megatron-LM",)),
        ((files / "mega", "--text", "a"), ("it needs --tokenizer",)),
        ((files / "mega", "--sample", "0"), ("out of range",)),
        ((files / "mega", "--dtype", "uint17"), ("uint16",)),
        ((files / "mega", "--tokenizer", files / "no.json"), ("there is no such file",)),
        ((files / "mega", "--format", "mega"), ("Did you mean megatron?",)),
    ):
        outcome = run_any("audit", *arguments)
        assert outcome.status == 2, (arguments, outcome.errors)
        missing = [part for part in parts if part not in outcome.errors]
        assert not missing, outcome.errors


def test_one_damaged_file_of_many_is_a_finding(files: Path) -> None:
    for name in "abc":
        (files / "mega" / f"{name}.bin").write_bytes((files / "mega" / "part.bin").read_bytes())
        (files / "mega" / f"{name}.idx").write_bytes(
            (files / "mega" / "part.idx").read_bytes()[:30]
        )
    outcome = run_here("audit", files / "mega")
    assert "3 of 4 files are cut" in outcome.output
    assert "its .idx ends within its header" in outcome.output


def test_texts_are_looked_up(tmp_path: Path) -> None:
    tokenizer = save_tokenizer(tmp_path / "tokenizer")
    lines = [json.dumps({"text": text}) for text in list_texts()[:60]]
    (tmp_path / "corpus.jsonl").write_text("\n".join(lines) + "\n")
    rows = encode_texts(60)
    folder = tmp_path / "ds"
    folder.mkdir()
    for name, kept, parts in (
        ("all", rows, ()),
        ("missing", rows[6:], ("10.0 % of 60 texts of the corpus are not in the files",)),
        (
            "doubled",
            rows + rows[:12],
            ("20.0 % of 60 texts that were found are there more than once",),
        ),
        (
            "other",
            [[*row[:5], 1400, *row[6:]] for row in rows[:6]] + rows[6:],
            ("10.0 % of 60 texts",),
        ),
    ):
        write_nanotron(folder, kept, {})
        found = run_here(
            "audit", folder, "--tokenizer", tokenizer, "--text", tmp_path / "corpus.jsonl"
        ).output
        assert [part for part in parts if part not in found] == [], (name, found)
        assert parts or "no findings" in found, found


def test_texts_are_looked_up_by_the_tokenizer_of_a_data_set(tmp_path: Path) -> None:
    tokenizer, output = save_tokenizer(tmp_path / "tokenizer"), tmp_path / "out"
    corpus = tmp_path / "corpus.jsonl"
    corpus.write_text("".join(json.dumps({"text": text}) + "\n" for text in list_texts()[:60]))
    build([corpus], Path(tokenizer), output, objective="gpt")
    words = ("--text", corpus)
    corpus.write_text(corpus.read_text() + '{"text": "None of these words is there ."}\n')
    assert "1.6 % of 61 texts of the corpus are not" in run_here("audit", output, *words).output
    shard, *_ = output.glob("v1/train-*.parquet")
    run_here("audit", shard, *words, refused=("it needs --tokenizer",))


def test_texts_are_found_in_packed_rows(tmp_path: Path) -> None:
    tokenizer = save_tokenizer(tmp_path / "tokenizer")
    lines = [json.dumps({"text": text}) for text in list_texts()[:60]]
    (tmp_path / "corpus.jsonl").write_text("\n".join(lines) + "\n")
    parts = [encode_texts(60)[start : start + 3] for start in range(0, 60, 3)]
    columns = {
        "input_ids": [[token for row in rows for token in row] for rows in parts],
        "seq_lengths": [[*map(len, rows)] for rows in parts],
    }
    pq.write_table(pa.table(columns), tmp_path / "packed.parquet")
    found = run_here(
        "audit", tmp_path / "packed.parquet", "--tokenizer", tokenizer, "--text",
        tmp_path / "corpus.jsonl",
    ).output  # fmt: skip
    assert "texts of the corpus are not in the files" not in found, found


def test_the_size_of_batches_changes_nothing(tmp_path: Path) -> None:
    rows, wrong = encode_texts(40), []
    marks = ("--end-id", str(END), "--begin-id", str(BEGIN))
    columns = {"labels": [[-100, *row[1:]] for row in rows]}
    for name, write in {**WITH_DOCUMENTS, **STREAMS}.items():
        folder = tmp_path / name
        folder.mkdir()
        write(folder, rows, columns if name in WITH_COLUMNS else {})
        counts = []
        for is_small in (False, True):
            with knobs(small=is_small):
                report = tmp_path / f"{name}.json"
                run_here("audit", folder, "--json", report, *marks)
            found = json.loads(report.read_text())["counts"]
            # Of labels, a piece is a row.
            counts.append({key: n for key, n in found.items() if not key.startswith("labels.")})
        if counts[0] != counts[1] or counts[0]["rows"] != (1 if name in STREAMS else 40):
            wrong.append((name, *counts))
    assert not wrong

"""Files that are not what they seem to be: failures where nearly all is lost, and findings."""

import json
from pathlib import Path

from tests.tools.jobs import assert_nothing_final, build, run_here


def test_a_file_of_which_nearly_all_lines_are_rejects_is_a_failure(
    sample: Path, tokenizer_path: Path, tmp_path: Path
) -> None:
    """Among others or alone, small or compressed; a share that is allowed is one."""
    sections = sample.read_text().split("\n = ")
    records = [json.dumps({"text": section}) + "\n" for section in sections[:80]]
    folder = tmp_path / "corpus"
    folder.mkdir()
    for n in range(4):
        (folder / f"{n}.jsonl").write_text("".join(records[n::4]))
    (folder / "few.jsonl").write_text("".join(records[:3]) + "A line of prose.\n" * 40)
    refused = (
        "few.jsonl: nearly all lines and rows of it are rejects; the first is at byte",
        "invalid-json",
        "--input-format text",
        "--max-rejects",
    )
    out = tmp_path / "out"
    build([folder], tokenizer_path, out, refused=refused)
    assert_nothing_final(out)
    build([folder / "few.jsonl"], tokenizer_path, tmp_path / "alone", refused=refused)
    build([folder], tokenizer_path, out, "--max-rejects", "0.5", "--resume")
    (folder / "few.jsonl").write_text("".join(records[:9]) + "A line of prose.\n")
    assert "rejects" in build([folder], tokenizer_path, tmp_path / "more").output


def test_a_text_that_begins_as_data_do_is_read_with_a_finding(
    sample: Path, tokenizer_path: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "corpus"
    folder.mkdir()
    text = sample.read_text()
    (folder / "a.txt").write_text(text)
    (folder / "b.txt").write_text(f'{{"text": "A blue river"}}\n\n{text}')
    looks = "1 file looks in part like another format, and became text: b.txt (json-lines)"
    arguments = ("--input", folder, "--tokenizer", tokenizer_path)
    assert looks in run_here("inspect-corpus", *arguments).output
    built = build([folder], tokenizer_path, tmp_path / "out")
    assert looks in built.output
    assert "Give --input-format text if it is text, and --input-format json-lines" in built.output
    assert looks in run_here("inspect", tmp_path / "out").output
    # It is in doubt no longer where someone has said what it is.
    chosen = build([folder], tokenizer_path, tmp_path / "text", "--input-format", "text")
    assert "looks in part" not in chosen.output

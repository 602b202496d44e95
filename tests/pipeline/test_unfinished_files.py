"""Files that end too early: the data set says which ones, however it is made and changed."""

import gzip
import shutil
from pathlib import Path

import pytest

from tests.pipeline.test_edit_jobs import drop
from tests.tools.growing import Growing
from tests.tools.jobs import assert_nothing_final, build, run_here
from tests.tools.origins import list_documents

NAMED = "1 of {} files could not be read to the end, with up to {} % of the stored bytes: b.gz"


@pytest.fixture
def corpus(sample: Path, tmp_path: Path) -> Path:
    """Twenty files, of which the second one has lost its last bytes."""
    folder = tmp_path / "corpus"
    folder.mkdir()
    sections = sample.read_text().split("\n = ")
    for number in range(20):
        text = "\n = ".join(sections[number::20])
        content = gzip.compress(text.encode())
        (folder / f"{chr(97 + number)}.gz").write_bytes(content[:-9] if number == 1 else content)
    return folder


def _unread(growing: Growing) -> list[tuple[str, int]]:
    files = growing.manifest().corpus.files
    return [(file.path, file.unread) for file in files if file.unread is not None]


def test_one_cut_file_among_others_is_named_and_refused(
    corpus: Path, tokenizer_path: Path, tmp_path: Path
) -> None:
    size = (corpus / "b.gz").stat().st_size
    share = size / sum(file.stat().st_size for file in corpus.iterdir())
    named = NAMED.format(20, f"{100 * share:.1f}")
    arguments = ("--input", corpus, "--tokenizer", tokenizer_path)
    assert named in run_here("inspect-corpus", *arguments).output
    built = build([corpus], tokenizer_path, tmp_path / "out")
    assert named in built.output
    assert f"({100 * share:.2f}% of the stored bytes): damaged-compression 1" in built.output
    assert named in run_here("inspect", tmp_path / "out").output
    strict = tmp_path / "strict"
    build([corpus], tokenizer_path, strict, "--strict", refused=("--strict", "b.gz"))
    assert_nothing_final(strict)
    build([corpus], tokenizer_path, strict, "--max-rejects", f"{share + 0.01:.3f}", "--resume")
    # It is one of twenty files, too, and the larger share counts.
    less = ("--max-rejects", f"{max(share, 1 / 20) - 0.001:.3f}")
    lost = (f"{size:,} of ", "stored bytes could not be read to their end")
    build([corpus], tokenizer_path, tmp_path / "less", *less, refused=lost)


def test_a_data_set_that_changes_keeps_the_names(
    corpus: Path, wordpiece: Path, tmp_path: Path
) -> None:
    cut = [("b.gz", (corpus / "b.gz").stat().st_size)]
    more = tmp_path / "more"
    shutil.copytree(corpus, more)
    (more / "b.gz").rename(more / "z.gz")
    first = Growing(tmp_path / "first", wordpiece)
    first.build(corpus)
    assert _unread(first) == cut
    whole = first.copy_to(tmp_path / "whole")
    whole.append(more, flags=("--existing", "allow"))
    assert _unread(whole) == [*cut, ("z.gz", cut[0][1])]
    document = list_documents(first.output)[0].document
    drop(first.output, [document])
    assert _unread(first) == cut

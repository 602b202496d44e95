"""Each finding goes away if its cure is obeyed: its options are read from the message itself."""

import gzip
import json
import re
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest

from corpusmill.errors import UserError
from corpusmill.inspection.findings import Finding, find
from tests.tools.data_files import manifest_of
from tests.tools.jobs import build, last_wins, train
from tests.tools.real_corpora import paragraphs, write_books, write_latin_1, write_records
from tests.tools.tokenizer_samples import byte_level
from transforms.refusals import refuse_findings

ENGLISH = ("--sentence-rule", "split", "--language", "en")
PAIRS = ("--max-seq-length", "128")
# What may follow the name of an option in a cure; other words belong to the sentence.
_OPTION = re.compile(
    r"(--[a-z-]+)(?:,? such as)?"
    r"(?: (\d[\d.]*\d|\d|split|en|whole-file|google|keep|none|True|False)\b)?"
)
_SWITCHES = {"--drop-duplicates"}


def list_cures(cure: str) -> Iterator[list[str]]:
    """Yield the flags of each way that a cure names, in their order."""
    for way in cure.split("; or "):
        flags = [
            part
            for name, value in _OPTION.findall(way)
            if value or name in _SWITCHES
            for part in filter(None, (name, value))
        ]
        if flags:
            yield flags


def findings_of(folder: Path) -> dict[str, Finding]:
    manifest = manifest_of(folder)
    found = {finding.name: finding for finding in find(manifest)}
    if found:
        with pytest.raises(UserError, match="--strict"):
            refuse_findings(manifest)
    return found


class Case(NamedTuple):
    """A build with findings.

    Attributes:
        write: writes the corpus: of the sample, into a folder.
        names: of the findings that it has, among others.
        flags: of the build.
        objective: its name.
    """

    write: Callable[[Path, Path], None]
    names: set[str]
    flags: tuple[str, ...] = PAIRS
    objective: str = "bert"


def _write_shelf(sample: Path, folder: Path) -> None:
    for number in range(5):
        write_books(sample, folder / f"{number}.txt", slice(number, None, 5))


def _write_records(sample: Path, folder: Path) -> None:
    write_records(sample, folder / "records.jsonl")


def _write_paragraphs(sample: Path, folder: Path) -> None:
    (folder / "text.txt").write_text("\n".join(f"{text}\n" for text in paragraphs(sample)))


def _repeat(number: int, sample: Path, folder: Path) -> None:
    (folder / "text.txt").write_bytes(number * sample.read_bytes())


def _write_long(_: Path, folder: Path) -> None:
    (folder / "text.txt").write_bytes(b"A lighthouse is a tower .\n" * 700_000)


def _write_quotes(sample: Path, folder: Path) -> None:
    """Write cells that begin with a quoted word in every fifth row below the first 64 KiB."""
    texts = [text.replace('"', "") for text in paragraphs(sample)]
    quoted = [text if number % 5 else f'"So" {text}' for number, text in enumerate(texts)]
    (folder / "text.tsv").write_text("\n".join(("text", *texts, *texts, *quoted)) + "\n")


WHOLE = ("--document-rule", "whole-file")
_ONCE, _TWICE = partial(_repeat, 1), partial(_repeat, 2)
CASES = {
    "paragraphs that are read as sentences": Case(
        _write_shelf, {"sentences per document", "random second segment"}
    ),
    "long lines in short rows": Case(
        _ONCE,
        {"long sentences", "coverage", "empty second segments"},
        ("--max-seq-length", "64"),
    ),
    "real sentences in shorter rows": Case(
        _ONCE, {"long sentences"}, ("--max-seq-length", "32", *ENGLISH)
    ),
    "short documents in long rows": Case(_ONCE, {"padding"}, ("--max-seq-length", "1024")),
    "BERT's own default of predictions": Case(
        _write_records, {"capped predictions"}, ("--max-seq-length", "512", *ENGLISH)
    ),
    "texts that are there twice": Case(_TWICE, {"copies"}),
    "many passes over short texts": Case(
        _write_paragraphs,
        {"equal rows"},
        ("--duplicates", "40", "--mask", "dynamic", "--segments", "sentence-order", *ENGLISH),
    ),
    "hardly a document to train on": Case(
        _ONCE, {"train rows"}, (*PAIRS, "--validation-share", "0.99")
    ),
    "hardly a document to validate by": Case(
        _ONCE, {"validation rows"}, (*PAIRS, "--duplicates", "10", "--validation-share", "0.05")
    ),
    "a text of which pieces are drawn": Case(
        partial(_repeat, 20), {"coverage"}, (*PAIRS, *WHOLE), "t5"
    ),
    "quotes that enclose nothing": Case(_write_quotes, {"rejects"}),
    "a document of 18 MB": Case(_write_long, {"cut documents"}, WHOLE, "gpt"),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_an_option_that_a_cure_names_cures(
    case: Case, sample: Path, tokenizer_path: Path, wordpiece: Path, tmp_path: Path
) -> None:
    corpus = tmp_path / "corpus"
    corpus.mkdir()
    case.write(sample, corpus)
    tokenizer = tokenizer_path if case.objective == "bert" else wordpiece

    def build_with(name: str, *flags: str) -> dict[str, Finding]:
        chosen = [str(flag) for flag in last_wins(*case.flags, *flags)]
        build([corpus], tokenizer, tmp_path / name, *chosen, objective=case.objective)
        return findings_of(tmp_path / name)

    found = build_with("built")
    assert case.names <= set(found)
    ways: dict[tuple[str, ...], set[str]] = {}
    for name in case.names:
        cures = list(list_cures(found[name].cure))
        assert cures, found[name].cure
        for way in cures:
            ways.setdefault(tuple(way), set()).add(name)
    for number, (flags, names) in enumerate(ways.items()):
        assert not names & set(build_with(f"cured-{number}", *flags)), flags


def _break_off(sample: Path, file: Path) -> None:
    content = gzip.compress(sample.read_bytes())
    file.with_suffix(".gz").write_bytes(content[: len(content) // 2])


def _mend(sample: Path, file: Path) -> None:
    file.with_suffix(".gz").write_bytes(gzip.compress(sample.read_bytes()))


def _copy_to(sample: Path, file: Path) -> None:
    file.write_bytes(sample.read_bytes())


def _spread_with_controls(sample: Path, file: Path) -> None:
    file.write_bytes(re.sub(rb"([ -~])", b"\\1\1", sample.read_bytes()))


@pytest.mark.parametrize(
    ("name", "write", "mend"),
    [
        ("unfinished files", _break_off, _mend),
        ("rejects", write_latin_1, _copy_to),
        ("control characters", _spread_with_controls, _copy_to),
    ],
)
def test_what_no_option_cures_is_cured_by_a_good_file(
    name: str,
    write: Callable[[Path, Path], object],
    mend: Callable[[Path, Path], object],
    sample: Path,
    tokenizer_path: Path,
    tmp_path: Path,
) -> None:
    corpus = tmp_path / "corpus"
    corpus.mkdir()
    for number, (change, expected) in enumerate(((write, True), (mend, False))):
        change(sample, corpus / "text.txt")
        build([corpus], tokenizer_path, tmp_path / f"{number}", *PAIRS)
        assert (name in findings_of(tmp_path / f"{number}")) == expected


@pytest.mark.parametrize(
    ("name", "adds", "flags"),
    [
        ("begin of text", True, ("--begin-of-text", "False")),
        ("begin of text", False, ("--begin-of-text", "True")),
        ("end of text", True, ("--end-of-text", "False")),
    ],
)
def test_an_option_that_contradicts_the_tokenizer_is_found(
    name: str, adds: bool, flags: tuple[str, ...], sample: Path, tmp_path: Path
) -> None:
    (tmp_path / "tokenizer.json").write_text(byte_level())
    config = {"add_bos_token": adds, "add_eos_token": adds, "eos_token": "</s>"}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    found = []
    for number, given in enumerate((flags, ())):
        output = tmp_path / str(number)
        build([sample], tmp_path, output, *given, objective="gpt")
        found.append(findings_of(output))
    assert name in found[0]
    assert name not in found[1]
    [cure] = list_cures(found[0][name].cure)
    build([sample], tmp_path, tmp_path / "cured", *cure, objective="gpt")
    assert name not in findings_of(tmp_path / "cured")


def test_a_tokenizer_of_the_text_cures(sample: Path, tokenizer_path: Path, tmp_path: Path) -> None:
    greek = "".join(
        chr(0x3B1 + ord(letter) % 17) if letter.isalpha() else letter
        for letter in sample.read_text()
    )
    (tmp_path / "text.txt").write_text(greek)
    train(tmp_path / "text.txt", tmp_path / "letters.json", "--vocab-size", "90")
    train(tmp_path / "text.txt", tmp_path / "words.json", "--vocab-size", "2000")
    tokenizers = (tokenizer_path, tmp_path / "letters.json", tmp_path / "words.json")
    names = ("unknown tokens", "tokens per letter")
    found = []
    for number, tokenizer in enumerate(tokenizers):
        build([tmp_path / "text.txt"], tokenizer, tmp_path / f"{number}", *PAIRS)
        findings = findings_of(tmp_path / f"{number}")
        assert all(
            "train one with train-tokenizer" in findings[name].cure
            for name in names
            if name in findings
        )
        found.append([name for name in names if name in findings])
    assert found == [["unknown tokens"], ["tokens per letter"], []]

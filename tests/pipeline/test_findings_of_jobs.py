"""Real text that is read as it should not be gives findings, and the same text read well none."""

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
from corpusmill.verification.check_data_set import verify
from tests.tools.data_files import manifest_of
from tests.tools.jobs import (
    SPREAD,
    assert_nothing_final,
    build,
    last_wins,
    rows_of,
    run_here,
    train,
)
from tests.tools.real_corpora import (
    paragraphs,
    write_books,
    write_chinese,
    write_code,
    write_latin_1,
    write_records,
)
from tests.tools.tokenizer_samples import byte_level
from transforms.refusals import refuse_findings

# Predictions for the whole share of the tokens, and rows that hold several sentences.
CAPPED = ("--max-seq-length", "128", "--max-predictions-per-seq", "20")
ENGLISH = ("--sentence-rule", "split", "--language", "en")
CHINESE = ("--sentence-rule", "split", "--language", "zh")


@pytest.fixture(scope="module")
def chinese_tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("chinese")
    corpus = write_chinese(folder / "chinese.jsonl")
    train(corpus, folder / "tokenizer.json", "--model", "wordpiece")
    return folder / "tokenizer.json"


def findings_of(folder: Path) -> dict[str, Finding]:
    assert not verify(folder)
    manifest = manifest_of(folder)
    found = {finding.name: finding for finding in find(manifest)}
    if found:
        with pytest.raises(UserError, match="--strict"):
            refuse_findings(manifest)
    return found


def test_chinese_without_sentences(chinese_tokenizer: Path, tmp_path: Path) -> None:
    corpus, log = write_chinese(tmp_path / "chinese.jsonl"), tmp_path / "log"
    logged = ("--log-format", "json", "--log-file", log)
    build([corpus], chinese_tokenizer, tmp_path / "out", *CAPPED, *logged)
    found = findings_of(tmp_path / "out")
    pairs = {"sentences per document", "empty second segments", "random second segment"}
    assert set(found) == pairs | {"long sentences", "coverage"}
    assert found["coverage"].value < 0.6
    assert found["long sentences"].value == 1
    events = [json.loads(line) for line in log.read_text().splitlines()]
    told = [event["finding"] for event in events if event.get("event") == "finding"]
    assert [Finding(**one) for one in told] == list(found.values())
    build([corpus], chinese_tokenizer, tmp_path / "cured", *CAPPED, *CHINESE)
    assert not findings_of(tmp_path / "cured")


@pytest.mark.parametrize("objective", ["electra", "ernie"])
def test_every_objective_says_how_much_of_the_text_it_has(
    objective: str, chinese_tokenizer: Path, tmp_path: Path
) -> None:
    corpus = write_chinese(tmp_path / "chinese.jsonl")
    flags = ("--max-seq-length", "128")
    built = build([corpus], chinese_tokenizer, tmp_path / "out", *flags, objective=objective)
    found = findings_of(tmp_path / "out")
    assert found["coverage"].value < 0.6
    assert str(found["coverage"]) in built.output


def test_text_and_rows_that_are_there_more_than_once(
    sample: Path, tokenizer_path: Path, tmp_path: Path
) -> None:
    texts = [f"{text}\n" for text in paragraphs(sample)]
    # Every third text comes a second time, far from the first.
    (tmp_path / "texts.txt").write_text("\n".join([*texts, *texts[::3]]))
    flags = ("--duplicates", "40", *ENGLISH)
    # A short text has few pairs, of which passes repeat the same.
    dynamic = ("--segments", "sentence-order", "--short-seq-prob", "0", "--mask", "dynamic")
    built = build([tmp_path / "texts.txt"], tokenizer_path, tmp_path / "out", *flags, *dynamic)
    found = findings_of(tmp_path / "out")
    assert set(found) >= {"copies", "equal rows"}
    rows = rows_of(tmp_path / "out")
    distinct = {tuple(row["input_ids"]) for row in rows}
    share = 1 - len(distinct) / len(rows)
    assert found["equal rows"].value == pytest.approx(share, rel=0.05)
    assert share > 0.4
    assert 0.2 < found["copies"].value < 0.3
    assert "Give fewer --duplicates, such as 1" in built.output
    whole = ("--segments", "doc-sentences", "--duplicates", "10")
    build([tmp_path / "texts.txt"], tokenizer_path, tmp_path / "masked", *flags, *whole)
    assert set(findings_of(tmp_path / "masked")) == {"copies"}


def test_code_has_no_findings(tmp_path: Path) -> None:
    code = write_code(tmp_path / "code")
    special = ("--model", "bpe", "--special-tokens", "<|endoftext|>", "--vocab-size", "2000")
    train(code, tmp_path / "tokenizer.json", *special)
    flags = ("--document-rule", "whole-file", "--strict")
    build([code], tmp_path / "tokenizer.json", tmp_path / "out", *flags, objective="gpt")


@pytest.mark.parametrize("objective", ["bert", "electra", "ernie", "gpt"])
def test_good_text_has_no_findings(
    objective: str, sample: Path, tokenizer_path: Path, gpt_tokenizer: Path, tmp_path: Path
) -> None:
    records = write_records(sample, tmp_path / "records.jsonl")
    flags = {"gpt": (), "bert": (*CAPPED, *ENGLISH)}.get(
        objective, ("--max-seq-length", "128", *ENGLISH)
    )
    tokenizer = gpt_tokenizer if objective == "gpt" else tokenizer_path
    output = tmp_path / "out"
    built = build([records], tokenizer, output, *flags, "--strict", objective=objective)
    assert not findings_of(output)
    assert "\nfinding " not in built.output
    if objective == "bert":  # and by the rule of WikiText
        rows = ("--max-seq-length", "256", "--max-predictions-per-seq", "40")
        build([sample], tokenizer, output, *rows, "--strict", "--replace")
        assert not findings_of(output)


@pytest.fixture(scope="module")
def articles(wikitext: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The beginning of WikiText's training text, and that of another text of its kind."""
    folder = tmp_path_factory.mktemp("articles")
    for name, size in (("train", 1_000_000), ("valid", 1_500_000)):
        content = (wikitext / f"wiki.{name}.tokens").read_bytes()[:size]
        (folder / name).write_bytes(content[: content.rindex(b"\n") + 1])
    return folder / "train", folder / "valid"


@pytest.mark.parametrize("objective", ["bert", "electra", "gpt"])
def test_wikitext_has_no_findings(
    objective: str, articles: tuple[Path, Path], tmp_path: Path
) -> None:
    model = "bpe" if objective == "gpt" else "wordpiece"
    special = ("--special-tokens", "<|endoftext|>") if objective == "gpt" else ()
    tokenizer = tmp_path / "tokenizer.json"
    # Also on the titles, which some objectives read.
    text = ("--vocab-size", "8000", "--document-rule", "blank-lines")
    train(articles[0], tokenizer, *text, "--model", model, *special)
    corpus = articles[1]
    cap = ("--max-predictions-per-seq", "77") if objective == "bert" else ()
    rows = () if objective == "gpt" else ("--max-seq-length", "512")
    # In two passes that are not masked most rows would be equal.
    once = ("--duplicates", "1") if objective == "electra" else ()
    output = tmp_path / "out"
    build([corpus], tokenizer, output, *rows, *cap, *once, "--strict", objective=objective)
    assert not findings_of(output)


def test_a_corpus_has_its_findings_before_it_is_built(
    chinese_tokenizer: Path, tmp_path: Path
) -> None:
    corpus = write_chinese(tmp_path / "chinese.jsonl")
    corpus.write_text(2 * corpus.read_text())
    shared = ("--input", corpus, "--tokenizer", chinese_tokenizer, *SPREAD)
    report, page = tmp_path / "numbers.json", tmp_path / "corpus.html"
    shown = run_here(
        "inspect-corpus", *shared, "--json", report, "--html", page, "bert", *CAPPED,
        "--duplicates", "2",
    )  # fmt: skip
    build([corpus], chinese_tokenizer, tmp_path / "out", *CAPPED)
    found = findings_of(tmp_path / "out")
    assert "copies" in found
    numbers = json.loads(report.read_text())
    assert [Finding(**one) for one in numbers["findings"]] == list(found.values())
    inspected = run_here("inspect", tmp_path / "out", "--html", tmp_path / "out.html")
    for finding in found.values():
        assert str(finding) in shown.output
        assert str(finding) in inspected.output
        for html in (page, tmp_path / "out.html"):
            assert finding.what in html.read_text().replace("&#39;", "'")


def test_reports_name_the_rules_and_where_the_data_is(
    sample: Path, tokenizer_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = write_records(sample, tmp_path / "records.jsonl")
    build([records], tokenizer_path, tmp_path / "out", *ENGLISH)
    monkeypatch.chdir(tmp_path)
    page, corpus_page = tmp_path / "out.html", tmp_path / "corpus.html"
    shown = run_here("inspect", "out", "--html", page).output
    arguments = ("--input", records, "--tokenizer", tokenizer_path, "--html", corpus_page)
    corpus = run_here("inspect-corpus", *arguments, *ENGLISH).output
    for text in (shown, corpus):
        for rule in ("document_rule=wikitext", "sentence_rule=split", "language=en"):
            assert rule in text
        assert "sentence_splitter=sentencex " in text
    assert str(tmp_path / "out") in shown
    for html in (page.read_text(), corpus_page.read_text()):
        for rule in ("sentence_rule", "split", "sentencex ", " UTC"):
            assert rule in html
    assert str(tmp_path / "out") in page.read_text()
    assert "corpusmill inspect-corpus --input" in corpus_page.read_text()


def test_strict_publishes_nothing_that_has_findings(
    chinese_tokenizer: Path, tmp_path: Path
) -> None:
    corpus, output = write_chinese(tmp_path / "chinese.jsonl"), tmp_path / "out"
    parts = ("--strict: ", "stand in an example", "--sentence-rule split", "leave --strict out")
    build([corpus], chinese_tokenizer, output, *CAPPED, "--strict", refused=parts)
    assert_nothing_final(output)
    build([corpus], chinese_tokenizer, output, *CAPPED, "--resume")
    assert findings_of(output)


# Each finding goes away if its cure is obeyed: its options are read from the message itself


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


def _write_edits(sample: Path, folder: Path) -> None:
    """Write paragraphs of about 60 words, and each twice more with a word of its own."""
    texts = paragraphs(sample)[:60]
    edited = [text.replace(" the ", f" {word} ", 1) for text in texts for word in ("this", "that")]
    (folder / "text.txt").write_text("\n".join([*texts, *edited]) + "\n")


def _write_forms(_: Path, folder: Path) -> None:
    form = " ".join(f"v{number}" for number in range(40))
    filled = ([f"w{row}x{word}" for word in range(14)] for row in range(1000))
    (folder / "text.txt").write_text("".join(f"{form} {' '.join(row)}\n" for row in filled))


NEAR = ("--input-format", "lines", "--drop-near-duplicates", "0.8")
WHOLE = ("--document-rule", "whole-file")
_ONCE, _TWICE = partial(_repeat, 1), partial(_repeat, 2)
CASES = {
    "paragraphs that are read as sentences": Case(
        _write_shelf, {"sentences per document", "random second segment"}
    ),
    "long lines in short rows": Case(
        _ONCE, {"long sentences", "coverage", "empty second segments"}, ("--max-seq-length", "64")
    ),
    "real sentences in shorter rows": Case(
        _ONCE, {"long sentences"}, ("--max-seq-length", "32", *ENGLISH)
    ),
    "short documents in long rows": Case(_ONCE, {"padding"}, ("--max-seq-length", "1024")),
    "BERT's own default of predictions": Case(
        _write_records, {"capped predictions"}, ("--max-seq-length", "512", *ENGLISH)
    ),
    "texts that are there twice": Case(_TWICE, {"copies"}),
    "texts that differ in a few words": Case(_write_edits, {"near duplicates"}, NEAR, "gpt"),
    "forms of which few words differ": Case(_write_forms, {"crowded buckets"}, NEAR, "gpt"),
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
    name: str, write: Callable[[Path, Path], object], mend: Callable[[Path, Path], object],
    sample: Path, tokenizer_path: Path, tmp_path: Path,
) -> None:  # fmt: skip
    corpus = tmp_path / "corpus"
    corpus.mkdir()
    for output, change, expected in (("bad", write, True), ("good", mend, False)):
        change(sample, corpus / "text.txt")
        build([corpus], tokenizer_path, tmp_path / output, *PAIRS)
        findings = findings_of(tmp_path / output)
        assert (name in findings) == expected
        if name == "rejects" and expected:
            named = re.search(r"Look into (\S+), and", findings[name].cure)
            assert named
            assert (tmp_path / output / named[1]).is_file()


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

"""Real text that is read as it should not be gives findings, and the same text read well none."""

import json
import re
from pathlib import Path

import pytest

from corpusmill.inspection.findings import Finding, find
from corpusmill.verification.check_data_set import verify
from tests.tools.data_files import manifest_of
from tests.tools.jobs import assert_nothing_final, build, rows_of, run_here, train
from tests.tools.real_corpora import (
    paragraphs,
    write_books,
    write_chinese,
    write_code,
    write_latin_1,
    write_records,
    write_titles,
)

# Predictions for the whole share of the tokens, and rows that hold several sentences.
PAIRS = ("--max-seq-length", "128", "--max-predictions-per-seq", "20")
ENGLISH = ("--sentence-rule", "split", "--language", "en")
CHINESE = ("--sentence-rule", "split", "--language", "zh")
Findings = dict[str, Finding]


@pytest.fixture(scope="module")
def chinese_tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("chinese")
    corpus = write_chinese(folder / "chinese.jsonl")
    train(corpus, folder / "tokenizer.json", "--model", "wordpiece")
    return folder / "tokenizer.json"


def findings_of(folder: Path) -> Findings:
    assert not verify(folder)
    manifest = manifest_of(folder)
    return {finding.name: finding for finding in find(manifest)}


def test_books_read_by_lines(sample: Path, tokenizer_path: Path, tmp_path: Path) -> None:
    books = write_books(sample, tmp_path / "books.txt")
    built = build([books], tokenizer_path, tmp_path / "out", *PAIRS)
    found = findings_of(tmp_path / "out")
    assert set(found) >= {"sentences per document", "random second segment"}
    assert found["random second segment"].value > 0.9
    for finding in found.values():
        assert "--sentence-rule split" in finding.cure
        assert "--document-rule whole-file" in finding.cure
        assert str(finding) in built.output
    whole = ("--document-rule", "whole-file", *ENGLISH)
    build([books], tokenizer_path, tmp_path / "cured", *PAIRS, *whole)
    # A single file is a single document, from which no random one can differ.
    assert set(findings_of(tmp_path / "cured")) == {"random second segment"}
    for number in range(5):
        write_books(sample, tmp_path / f"shelf-{number}.txt", slice(number, None, 5))
    shelf = tmp_path / "shelf-*.txt"
    build([shelf], tokenizer_path, tmp_path / "books", *PAIRS, *whole, "--strict")


def test_chinese_without_sentences(chinese_tokenizer: Path, tmp_path: Path) -> None:
    corpus = write_chinese(tmp_path / "chinese.jsonl")
    build([corpus], chinese_tokenizer, tmp_path / "out", *PAIRS)
    found = findings_of(tmp_path / "out")
    pairs = {"sentences per document", "empty second segments", "random second segment"}
    assert set(found) == pairs | {"long sentences", "coverage"}
    assert found["coverage"].value < 0.6
    assert found["long sentences"].value == 1
    build([corpus], chinese_tokenizer, tmp_path / "cured", *PAIRS, *CHINESE)
    assert not findings_of(tmp_path / "cured")


@pytest.mark.parametrize("objective", ["bert", "electra", "ernie"])
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


def test_a_vocabulary_of_another_language(
    sample: Path, tokenizer_path: Path, chinese_tokenizer: Path, tmp_path: Path
) -> None:
    corpus = write_chinese(tmp_path / "chinese.jsonl")
    build([corpus], tokenizer_path, tmp_path / "english", *PAIRS, *CHINESE)
    assert findings_of(tmp_path / "english")["unknown tokens"].value > 0.5
    build([sample], chinese_tokenizer, tmp_path / "chinese", *PAIRS)
    assert findings_of(tmp_path / "chinese")["unknown tokens"].value > 0.5


def test_records_of_one_sentence(sample: Path, tokenizer_path: Path, tmp_path: Path) -> None:
    titles = write_titles(sample, tmp_path / "titles.jsonl")
    build([titles], tokenizer_path, tmp_path / "out", "--max-seq-length", "256", *ENGLISH)
    names = {"sentences per document", "random second segment", "padding"}
    assert set(findings_of(tmp_path / "out")) == names


def test_text_in_another_encoding(sample: Path, tokenizer_path: Path, tmp_path: Path) -> None:
    text = write_latin_1(sample, tmp_path / "text.txt")
    build([text], tokenizer_path, tmp_path / "out", "--document-rule", "whole-file", *ENGLISH)
    finding = findings_of(tmp_path / "out")["rejects"]
    assert finding.value > 0.2
    named = re.search(r"Look into (\S+), and", finding.cure)
    assert named
    assert (tmp_path / "out" / named[1]).is_file()


def test_code_has_no_findings(tmp_path: Path) -> None:
    code = write_code(tmp_path / "code")
    special = ("--model", "bpe", "--special-tokens", "<|endoftext|>", "--vocab-size", "2000")
    train(code, tmp_path / "tokenizer.json", *special)
    flags = ("--document-rule", "whole-file", "--strict")
    build([code], tmp_path / "tokenizer.json", tmp_path / "out", *flags, objective="gpt")


def test_bytes_of_another_language(sample: Path, tmp_path: Path) -> None:
    special = ("--special-tokens", "[PAD]", "[CLS]", "[SEP]", "[MASK]", "--model", "bpe")
    train(sample, tmp_path / "tokenizer.json", *special)
    corpus = write_chinese(tmp_path / "chinese.jsonl")
    build([corpus], tmp_path / "tokenizer.json", tmp_path / "out", *PAIRS, *CHINESE)
    assert findings_of(tmp_path / "out")["tokens per letter"].value > 0.6


@pytest.mark.parametrize("objective", ["bert", "electra", "ernie", "gpt"])
def test_good_text_has_no_findings(
    objective: str, sample: Path, tokenizer_path: Path, gpt_tokenizer: Path, tmp_path: Path
) -> None:
    records = write_records(sample, tmp_path / "records.jsonl")
    flags = {"gpt": (), "bert": (*PAIRS, *ENGLISH)}.get(
        objective, ("--max-seq-length", "128", *ENGLISH)
    )
    tokenizer = gpt_tokenizer if objective == "gpt" else tokenizer_path
    output = tmp_path / "out"
    built = build([records], tokenizer, output, *flags, "--strict", objective=objective)
    assert not findings_of(output)
    assert "\nfinding " not in built.output


def test_wikitext_by_its_rule_has_no_findings(
    sample: Path, tokenizer_path: Path, tmp_path: Path
) -> None:
    rows = ("--max-seq-length", "256", "--max-predictions-per-seq", "40")
    build([sample], tokenizer_path, tmp_path / "sample", *rows, "--strict")
    assert not findings_of(tmp_path / "sample")


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
    shared = (
        "--input",
        corpus,
        "--tokenizer",
        chinese_tokenizer,
        "--num-shards",
        "3",
        "--seed",
        "1",
    )
    report, page = tmp_path / "numbers.json", tmp_path / "corpus.html"
    shown = run_here(
        "inspect-corpus", *shared, "--json", report, "--html", page, "bert", *PAIRS,
        "--duplicates", "2",
    )  # fmt: skip
    build([corpus], chinese_tokenizer, tmp_path / "out", *PAIRS)
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
    build([corpus], chinese_tokenizer, output, *PAIRS, "--strict", refused=parts)
    assert_nothing_final(output)
    build([corpus], chinese_tokenizer, output, *PAIRS, "--resume")
    assert findings_of(output)


def test_the_log_has_findings_as_events(chinese_tokenizer: Path, tmp_path: Path) -> None:
    corpus, log = write_chinese(tmp_path / "chinese.jsonl"), tmp_path / "log"
    logged = ("--log-format", "json", "--log-file", log)
    build([corpus], chinese_tokenizer, tmp_path / "out", *PAIRS, *logged)
    events = [json.loads(line) for line in log.read_text().splitlines()]
    found = [event["finding"] for event in events if event.get("event") == "finding"]
    assert [Finding(**one) for one in found] == list(findings_of(tmp_path / "out").values())

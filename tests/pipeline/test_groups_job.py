"""Records of a repository become one document, and stay known one by one."""

import json
import re
from collections import Counter
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

import corpusmill
import transforms.build
from corpusmill.console.process import FAILURE
from corpusmill.corpus.document_options import DocumentOptions
from corpusmill.errors import UserError
from corpusmill.provenance.store import DocumentRecord, records_of
from corpusmill.reading.tracing import stored_rows
from tests.tools.data_files import digests_by_version
from tests.tools.jobs import TWO_WORKERS, Outcome, digests, read_manifest_json, rows_of, run_here
from tests.tools.knobs import SMALL_SIZES, knobs
from tests.tools.origins import list_documents, open_store, open_texts
from transforms.corpus.documents import ReadDocuments
from transforms.shuffle.spill import put_in_order

SPECIAL = (
    "<|endoftext|>", "<|file_sep|>", "<|repo_name|>", "<|fim_prefix|>", "<|fim_middle|>",
    "<|fim_suffix|>",
)  # fmt: skip
# Files of 30 repositories in any order, some of them long, in many files or in none.
ROWS: list[dict[str, Any]] = [
    {
        "content": f"def f{number}(x):\n" + f"    x += {number}\n" * (number % 9) ** 2,
        "path": f"src/{number * 7919 % 100}.py" if number % 11 else None,
        "meta": {"repo": f"org/{number * number % 31}", "n": number * 7919 % 400}
        if number % 19
        else None,
        "license": ["mit", "gpl"][number % 2],
    }
    for number in range(400)
]
JOIN, BEGIN = r"<|file_sep|>{path}\n", "<|repo_name|>{meta.repo}"
GROUPS = ("--group-by", "meta.repo", "--order-by", "path", "--join", JOIN, "--begin-of-group",
          BEGIN, "--text-field", "content")  # fmt: skip


@pytest.fixture(scope="module")
def code_tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A byte-level tokenizer with the special tokens of repositories."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    tokenizer.train_from_iterator(
        (row["content"] for row in ROWS),
        trainers.BpeTrainer(
            vocab_size=300,
            special_tokens=[*SPECIAL],
            initial_alphabet=alphabet,
            show_progress=False,
        ),
    )
    path = tmp_path_factory.mktemp("code") / "tokenizer.json"
    tokenizer.save(str(path))
    return path


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The records in three files."""
    folder = tmp_path_factory.mktemp("rows")
    for number in range(3):
        write_lines(folder / f"{number}.jsonl", ROWS[number::3])
    return folder


def write_lines(path: Path, rows: Sequence[dict[str, Any]]) -> Path:
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return path


def gpt(tokenizer: Path, output: Path, *flags: str | Path, **end: Any) -> Outcome:
    made = ("--tokenizer", tokenizer, "--output", output, "--num-shards", "3", *GROUPS)
    return run_here("gpt", *made, *flags, **end)


def join_plainly(
    rows: Sequence[dict[str, Any]], tokenizer: Path, most_tokens: int = 2**62
) -> list[list[int]]:
    """Return the documents of records by a loop over all of them."""
    library, documents = Tokenizer.from_file(str(tokenizer)), list[list[int]]()
    groups: dict[Any, list[dict[str, Any]]] = {}
    for number, row in enumerate(rows):
        repo = row["meta"]["repo"] if row["meta"] else number
        groups.setdefault(repo, []).append(row)

    def encode(text: str) -> list[int]:
        ids: list[int] = library.encode(text, add_special_tokens=False).ids
        return ids

    for repo, own in groups.items():
        name = encode(f"<|repo_name|>{repo if isinstance(repo, str) else ''}")
        document = list[int]()
        for row in sorted(own, key=lambda row: (row["path"] is None, row["path"])):
            file = encode(f"<|file_sep|>{row['path'] or ''}\n") + encode(row["content"])
            if document and len(document) + len(file) > most_tokens:
                documents.append([*document, 0])
                document = []
            document += file if document else [*name, *file]
        documents.append([*document, 0])
    return sorted(documents)


def documents_in(output: Path) -> list[list[int]]:
    return sorted(row["input_ids"] for row in rows_of(output))


def test_documents_are_those_of_a_plain_loop(
    corpus: Path, code_tokenizer: Path, tmp_path: Path
) -> None:
    """In any format, and where a group is cut."""
    rows = [row for number in range(3) for row in ROWS[number::3]]
    expected = join_plainly(rows, code_tokenizer)
    printed = gpt(code_tokenizer, tmp_path / "plain", "--input", corpus).output
    assert documents_in(tmp_path / "plain") == expected
    assert "documents are made of 400 records; 22 of them without a group" in printed
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "rows.parquet", row_group_size=50)
    gpt(code_tokenizer, tmp_path / "table", "--input", tmp_path / "rows.parquet")
    assert documents_in(tmp_path / "table") == expected
    cut = ("--max-group-tokens", "500")
    gpt(code_tokenizer, tmp_path / "cut", "--input", corpus, *cut)
    assert documents_in(tmp_path / "cut") == join_plainly(rows, code_tokenizer, 500)
    counts = read_manifest_json(tmp_path / "cut")["counts"]
    assert counts["groups.cut"] == counts["groups.documents"] - len(expected) > 10
    for output in ("plain", "cut", "table"):
        run_here("verify", tmp_path / output)


def test_bytes_depend_neither_on_workers_nor_on_the_sizes_of_tasks(
    corpus: Path, code_tokenizer: Path, tmp_path: Path
) -> None:
    gpt(code_tokenizer, tmp_path / "plain", "--input", corpus)
    gpt(code_tokenizer, tmp_path / "two", "--input", corpus, *TWO_WORKERS)
    with knobs(small=True):
        gpt(code_tokenizer, tmp_path / "small", "--input", corpus, *TWO_WORKERS, *SMALL_SIZES)
    for other in ("two", "small"):
        assert digests(tmp_path / other) == digests(tmp_path / "plain")


@pytest.mark.parametrize(
    "flags",
    [
        (),
        ("--fim-rate", "0.7"),
        ("--fim-rate", "0.7", "--fim-cut", "tokens", "--mode", "windows", "--overlap", "3"),
        ("--mode", "pack", "--max-group-tokens", "300"),
    ],
)
def test_rows_are_traced_to_each_of_their_records(
    flags: tuple[str, ...], corpus: Path, code_tokenizer: Path, tmp_path: Path
) -> None:
    """Middles are moved within a record, and what is put before it belongs to none."""
    rows = ("--max-seq-length", "64", "--validation-share", "0.3")
    gpt(code_tokenizer, tmp_path / "out", "--input", corpus, *rows, *flags)
    run_here("verify", tmp_path / "out")
    records = {record.document: record for record in list_documents(tmp_path / "out")}
    assert len(records) == len(ROWS)
    check_rows(tmp_path / "out", corpus, records, Tokenizer.from_file(str(code_tokenizer)))
    paths = {record.fields["path"] for record in records.values() if "path" in record.fields}
    assert paths == {row["path"] for row in ROWS} - {None}
    # No group is in both splits.
    splits = [
        {record.fields.get("meta.repo") for table in tables for record in records_of(table)}
        for tables in map(open_store(tmp_path / "out").tables, ("train", "validation"))
    ]
    assert splits[0] & splits[1] <= {None} < splits[1]
    if "--fim-rate" not in flags:
        return
    file, middle = SPECIAL.index("<|file_sep|>"), SPECIAL.index("<|fim_middle|>")
    texts = ["".join(map(chr, row["input_ids"])) for row in rows_of(tmp_path / "out")]
    parts = [part for text in texts for part in text.split(chr(file))]
    moved = [part.count(chr(middle)) for part in parts]
    assert max(moved) == 1
    assert sum(moved) > len(ROWS) / 2


def check_rows(
    output: Path, corpus: Path, records: dict[int, DocumentRecord], library: Tokenizer
) -> None:
    """Check that rows have the text of their spans in its order, and hold every record whole."""
    store, texts = open_store(output), open_texts(output, corpus)
    held = Counter[int]()
    for split in ("train", "validation"):
        rows = [row["input_ids"] for row in rows_of(output, f"{split}*")]
        origins = {origin.row: origin for origin in store.origins(split, range(len(rows)))}
        for number, row in enumerate(rows):
            spans, place = origins[number].spans, 0
            own = {record: records[record] for record in origins[number].documents}
            told = {span: text for _, some, _ in texts.read_spans(own, spans)
                    for span, text in some.items()}  # fmt: skip
            text = re.sub(r"<\|fim_\w+\|>", "", library.decode(row, skip_special_tokens=False))
            for span in spans:
                held[span.document] += span.tokens
                place = text.index(told[span], place) + len(told[span])
    assert all(held[number] >= record.tokens > 0 for number, record in records.items())
    assert store.documents(records) == records
    for number in [*records][::7]:
        rows = [*store.rows_of(np.array([number], np.uint64))]
        assert all(number in row.documents for row in rows)
        assert sum(
            part.tokens for row in rows for part in row.spans if part.document == number
        ) >= (records[number].tokens)


def test_conditions_filters_and_additions_see_records(code_tokenizer: Path, tmp_path: Path) -> None:
    pytest.importorskip("duckdb")
    lines = write_lines(tmp_path / "rows.jsonl", [*ROWS, *ROWS[:50]])
    distinct = [*{(row["content"], row["license"]): row for row in reversed(ROWS)}.values()]
    output, where = tmp_path / "out", ("--where", "license = 'mit'", "--drop-duplicates")
    gpt(code_tokenizer, output, "--input", lines, *where)
    kept = [row for row in distinct if row["license"] == "mit"]
    kept.sort(key=ROWS.index)
    assert documents_in(output) == join_plainly(kept, code_tokenizer)
    more = [{**row, "content": f"# more\n{row['content']}"} for row in ROWS[:40]]
    write_lines(lines, more)
    other = ("--append", "--join", "{path}:")
    flags = [flag for flag in GROUPS if flag not in {"--join", JOIN}]
    made = ("--tokenizer", code_tokenizer, "--output", output, "--num-shards", "3")
    run_here("gpt", *made, "--input", lines, *flags, *where, *other, refused=["options", "join"])
    gpt(code_tokenizer, output, "--input", lines, *where, "--append")
    added = [row for row in more if row["license"] == "mit"]
    expected = join_plainly(kept, code_tokenizer) + join_plainly(added, code_tokenizer)
    assert documents_in(output) == sorted(expected)
    run_here("verify", output)
    path = kept[0]["path"] or kept[1]["path"]
    assert f"path={path}" in run_here("trace", output, "--where", f"path = '{path}'").output


def test_sources_take_whole_documents(code_tokenizer: Path, tmp_path: Path) -> None:
    """The copies of a record are those of its group, and a group is of one source."""
    for name in ("a", "b"):
        write_lines(tmp_path / f"{name}.jsonl", ROWS)
    sources = ("--source", f"a={tmp_path / 'a.jsonl'}@0.5", f"b={tmp_path / 'b.jsonl'}@2")
    gpt(code_tokenizer, tmp_path / "out", *sources)
    run_here("verify", tmp_path / "out")
    whole = join_plainly(ROWS, code_tokenizer)
    built = documents_in(tmp_path / "out")
    assert all(built.count(document) >= 2 for document in whole)
    taken = len(built) - 2 * len(whole)
    assert 0.2 * len(whole) < taken < 0.8 * len(whole)
    assert {tuple(document) for document in built} == {tuple(document) for document in whole}
    flags = ";".join(f"{GROUPS[n][2:]}={GROUPS[n + 1]}" for n in (0, 2, 4, 8))
    alike = [f"{name}={tmp_path / 'a.jsonl'};{flags}" for name in "ab"]
    made = ("--tokenizer", code_tokenizer, "--output", tmp_path / "alike")
    assert "joined" in run_here("gpt", *made, "--source", *alike).output
    own = ("--source", f"a={tmp_path / 'a.jsonl'}", f"b={tmp_path / 'b.jsonl'};order-by=meta.n")
    gpt(code_tokenizer, tmp_path / "other", *own, refused=["--source: ", "in one way"])


def test_a_stopped_run_is_resumed(
    corpus: Path, code_tokenizer: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flags = ("--input", corpus, *SMALL_SIZES, "--workers", "1")
    gpt(code_tokenizer, tmp_path / "plain", *flags)
    shards = count()

    def stop(*arguments: Any) -> Any:
        if next(shards) == 2:
            raise OSError(28, "No space left on device")
        return put_in_order(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(transforms.build, "put_in_order", stop)
        gpt(code_tokenizer, tmp_path / "out", *flags, status=FAILURE)
    gpt(code_tokenizer, tmp_path / "out", *flags, "--resume")
    assert [*digests_by_version(tmp_path / "out").values()] == [
        *digests_by_version(tmp_path / "plain").values()
    ]


def test_records_of_python_are_ordered_by_numbers(code_tokenizer: Path, tmp_path: Path) -> None:
    rows = [{"text": f"{n} ", "repo": "a", "n": n} for n in (10, 9, -1, 2.5, "b", None, 100)]
    corpusmill.build(
        "gpt", input=rows, tokenizer=str(code_tokenizer), output=str(tmp_path / "out"),
        group_by="repo", order_by="n", join="|",
    )  # fmt: skip
    [row] = rows_of(tmp_path / "out")
    text = Tokenizer.from_file(str(code_tokenizer)).decode(row["input_ids"])
    assert text == "|-1 |2.5 |9 |10 |100 |b |None "


def test_what_cannot_be_joined_is_refused_before_any_work(
    corpus: Path, code_tokenizer: Path, tmp_path: Path
) -> None:
    text = tmp_path / "text.txt"
    text.write_text("A line of text .\n")
    data = ("--input", corpus, "--text-field", "content")
    by, join = ("--group-by", "meta.repo"), ("--join", "{path}")
    for flags, parts in (
        ((*data, *by), ["--group-by meta.repo: it needs --join"]),
        ((*data, *join), ["--join {path}: it needs --group-by"]),
        ((*data, "--max-group-tokens", "9"), ["--max-group-tokens 9: it needs --group-by"]),
        (
            (*data, "--group-by", "repo", *join),
            ["--group-by repo: ", "fields are"],
        ),
        ((*data, *by, *join, "--order-by", "pth"), ["--order-by pth: ", "its fields are"]),
        ((*data, *by, "--join", "x{pth}"), ["--join x{pth}: ", "no such field"]),
        ((*data, *by, "--join", "{path"), ["--join {path: a brace in it"]),
        ((*data, *by, "--join", "x", "--begin-of-group", "{}"), ["--begin-of-group {}: a brace"]),
        ((*data, "--group-by", "meta.repo,path", *join), ["--group-by meta.repo,path: the name"]),
        ((*data, *by, "--join", "{ path }"), ["--join { path }: the name of a field"]),
        ((*data, *by, "--join", "x{path!r}"), ["--join x{path!r}: ", "no such field"]),
        ((*data, *by, *join, "--order", "corpus"), ["--group-by meta.repo: ", "--order corpus"]),
        ((*data, "--group-by", "content", *join), ["--group-by content: content is the text"]),
        (("--input", text, *by, *join), ["--group-by meta.repo: documents of the format text"]),
    ):
        output = ("--tokenizer", code_tokenizer, "--output", tmp_path / "out")
        run_here("gpt", *output, *flags, refused=parts)
        assert not (tmp_path / "out").exists()
    flags = (*data, *by, "--join", "<|file|>{path}")
    printed = run_here("gpt", *output, *flags).output
    assert "<|file|> is no special token" in printed
    made = ("--output", tmp_path / "t.json", "--text-field", "content")
    joined, refused = ("--group-by", "path", "--join", "x"), ["group-by", "path: a build alone"]
    run_here("train-tokenizer", *made, "--input", corpus, *joined, refused=refused)
    named = f"a={corpus / '0.jsonl'};group-by=path;join=x"
    run_here("train-tokenizer", *made, "--source", named, refused=refused)
    looked = ("--tokenizer", code_tokenizer, "--text", text, "--group-by", "path", "--join", "x")
    run_here("audit", tmp_path / "out", *looked, refused=["--group-by path: a build alone"])


def test_tokens_of_qwen_are_added_without_being_special(
    corpus: Path, code_tokenizer: Path, tmp_path: Path
) -> None:
    gpt(code_tokenizer, tmp_path / "special", "--input", corpus)
    described = json.loads(code_tokenizer.read_text())
    for token in described["added_tokens"]:
        token["special"] = token["content"] == "<|endoftext|>"
    (tmp_path / "qwen.json").write_text(json.dumps(described))
    printed = gpt(tmp_path / "qwen.json", tmp_path / "added", "--input", corpus).output
    assert "is no special token" not in printed
    assert documents_in(tmp_path / "added") == documents_in(tmp_path / "special")


def test_estimates_say_that_records_are_not_joined(corpus: Path, code_tokenizer: Path) -> None:
    flags = ("--input", corpus, "--tokenizer", code_tokenizer, *GROUPS)
    printed = run_here("inspect-corpus", "gpt", *flags).output
    assert "if each record were a document; a build joins them" in printed
    assert "exactly" not in printed


def test_a_collection_is_not_joined(corpus: Path) -> None:
    options = DocumentOptions(text_field="content", group_by="path", join="x")
    with pytest.raises(UserError, match="a build alone joins records"):
        ReadDocuments(str(corpus / "0.jsonl"), options)


def test_middles_are_not_moved_across_records_when_rows_are_read(
    corpus: Path, code_tokenizer: Path, tmp_path: Path
) -> None:
    gpt(code_tokenizer, tmp_path / "out", "--input", corpus)
    data_set = corpusmill.DataSet(tmp_path / "out")
    with pytest.raises(UserError, match="several records"):
        corpusmill.TokenWindows(data_set, 32, fim_rate=0.5)
    windows = corpusmill.TokenWindows(data_set, 32)
    [[stored, *_]] = stored_rows(windows, np.array([3]))
    [origin] = open_store(tmp_path / "out").origins("train", [stored.row])
    assert stored.cut(origin) == origin


@pytest.mark.parametrize("objective", ["bert", "t5"])
def test_other_objectives_do_not_join(
    objective: str, corpus: Path, wordpiece: Path, tmp_path: Path
) -> None:
    made = ("--input", corpus, "--tokenizer", wordpiece, "--output", tmp_path / "out")
    run_here(objective, *made, *GROUPS, refused=[f"--group-by meta.repo: {objective}"])

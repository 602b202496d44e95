"""The command chat as a whole: forms of input, engines, formats, readers, and a model."""

import json
import re
from collections.abc import Sequence
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tokenizers import Tokenizer

from corpusmill.errors import UserError
from corpusmill.objectives.chat import ChatOptions
from corpusmill.reading.collate.collators import collator_for
from corpusmill.reading.data_set import DataSet
from corpusmill.reading.load.loader import Loader, make_batches
from corpusmill.reading.mixture import mix
from tests.corpusmill.objectives.reference_chat import Piece, encode
from tests.corpusmill.objectives.reference_gpt import best_fit
from tests.tools import jobs
from tests.tools.chat_data import draw_conversations, write_lines, write_tokenizer
from tests.tools.chat_families import FAMILIES, MESSAGES, SYSTEM
from tests.tools.containers import CONTAINERS, LAYOUTS
from tests.tools.data_files import find_file, find_files
from tests.tools.knobs import SMALL_SIZES, knobs

CHATML = FAMILIES["chatml"]
LENGTH = 256
# All that a record holds reaches the text.
_TEMPLATE = (
    "{% if tools %}{{ '<|im_start|>' + (tools | tojson) + '<|im_end|>\n' }}{% endif %}"
    "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + (m | tojson) + '<|im_end|>\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
OPTIONS = ("--max-seq-length", str(LENGTH), "--num-shards", "2", "--seed", "1")
Record = dict[str, Any]


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tokenizer(tmp_path_factory.mktemp("chat") / "tokenizer", CHATML)


@pytest.fixture(scope="module")
def records() -> list[Record]:
    return draw_conversations(90, seed=3)


@pytest.fixture(scope="module")
def lines(tmp_path_factory: pytest.TempPathFactory, records: list[Record]) -> Path:
    return write_lines(tmp_path_factory.mktemp("chat") / "chat.jsonl", records)


@pytest.fixture(scope="module")
def pieces(records: list[Record], tokenizer: Path) -> list[Piece]:
    """What a plain program makes of the conversations."""
    library = Tokenizer.from_file(str(tokenizer / "tokenizer.json"))
    special, tokens = ["<|im_start|>", "<|im_end|>"], {"eos_token": "<|im_end|>"}
    return [
        encode(CHATML.template, record["messages"], library, special, tokens) for record in records
    ]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory, lines: Path, tokenizer: Path) -> Path:
    output = tmp_path_factory.mktemp("chat") / "out"
    build(lines, tokenizer, output, "--provenance")
    return output


def build(corpus: Path, tokenizer: Path, output: Path, *flags: str | Path) -> jobs.Outcome:
    named = ("--input", corpus, "--tokenizer", tokenizer, "--output", output)
    return jobs.run_here(*jobs.last_wins("chat", *named, *OPTIONS, *flags))


def cut_rows(rows: Sequence[Record], mask: str = "loss_mask") -> list[Piece]:
    return sorted(
        (tuple(row["input_ids"][begin:end]), tuple(row[mask][begin:end]))
        for row in rows
        for begin, end in pairwise(row["cu_seqlens"])
    )


def test_the_rows_are_those_of_the_reference(built: Path, pieces: list[Piece]) -> None:
    rows = jobs.rows_of(built)
    assert cut_rows(rows) == sorted(pieces)
    for shard in find_files(built, "*.parquet"):
        sizes = [len(row["input_ids"]) for row in jobs.rows_of(built, shard.stem)]
        own = [len(ids) for ids, _ in cut_rows(jobs.rows_of(built, shard.stem))]
        assert sorted(sizes) == best_fit(own, LENGTH)
    described = jobs.read_manifest_json(built)
    counts = described["counts"]
    assert counts["build.learned_tokens"] == sum(sum(mask) for _, mask in pieces)
    assert counts["tokenize.messages.user"] == counts["tokenize.messages.assistant"]
    assert described["objective"]["options"]["chat_template"] == CHATML.template
    assert len(described["objective"]["facts"]["chat_template_sha256"]) == 64


def test_any_engine_gives_the_same_bytes(
    built: Path, lines: Path, tokenizer: Path, tmp_path: Path
) -> None:
    small = (*jobs.TWO_WORKERS, *SMALL_SIZES)
    with knobs(small=True):
        build(lines, tokenizer, tmp_path / "out", "--provenance", *small)
    assert jobs.digests(tmp_path / "out") == jobs.digests(built)


def test_six_layouts_in_all_containers(tokenizer: Path, tmp_path: Path) -> None:
    (tmp_path / "t.jinja").write_text(_TEMPLATE)
    conversations, shards = {}, {}
    for container, (end, _, write) in CONTAINERS.items():
        corpus, output = tmp_path / f"{container}.in", tmp_path / f"{container}.out"
        corpus.mkdir()
        for layout, records in LAYOUTS.items():
            (corpus / f"{layout}.{end}").write_bytes(write(_number(records * 3)))
        jobs.run_here(
            "chat", "--input", corpus, "--tokenizer", tokenizer, "--output", output,
            "--chat-template", tmp_path / "t.jinja", "--max-seq-length", "1024",
            "--num-shards", "1",
        )  # fmt: skip
        conversations[container] = cut_rows(jobs.rows_of(output))
        digests = jobs.digests(output)
        shards[container] = [digests[name] for name in sorted(digests) if "/train-" in name]
    expected = conversations["JSON lines"]
    assert len(expected) == 3 * sum(map(len, LAYOUTS.values()))
    assert [name for name, others in conversations.items() if others != expected] == []
    # Rows are in the order of a hash of where each record stands: the number of its row in all
    # tables, and the byte at which it begins in JSON.
    tables = {name: shards[name] for name in shards if not name.startswith("JSON")}
    assert [name for name, digests in tables.items() if digests != shards["Parquet"]] == []
    assert shards["Parquet"]


def _number(records: list[Any]) -> list[Any]:
    """Make the records differ."""
    words = re.compile('"(What|Why|Add|See)')
    return [
        json.loads(words.sub(rf'"\1 {number}', json.dumps(record)))
        for number, record in enumerate(records)
    ]


def test_records_of_a_program(records: list[Record], tokenizer: Path, tmp_path: Path) -> None:
    corpusmill = import_module("corpusmill")
    found = []
    for number, given in enumerate((records, pa.Table.from_pylist(records))):
        output = tmp_path / str(number)
        corpusmill.build("chat", input=given, tokenizer=str(tokenizer), output=str(output))
        found.append(cut_rows(jobs.rows_of(output)))
    assert found[0] == found[1]


def test_what_is_no_conversation_is_a_reject(tokenizer: Path, tmp_path: Path) -> None:
    template = tmp_path / "alternating.jinja"
    template.write_text(FAMILIES["mistral"].template)
    bad = [{"messages": [SYSTEM, *MESSAGES]}, {"messages": []}, {"text": "a"}, [1]]
    good = [{"messages": MESSAGES}] * 3
    for suffix in ("jsonl", "json"):
        corpus = tmp_path / f"chat.{suffix}"
        if suffix == "jsonl":
            write_lines(corpus, [*good, *bad])  # type: ignore[list-item]
        else:
            corpus.write_text(json.dumps([*good, *bad]))
        output = tmp_path / f"{suffix}.out"
        build(corpus, tokenizer, output, "--chat-template", template)
        assert len(cut_rows(jobs.rows_of(output))) == 3
        rejects = [
            json.loads(line)
            for line in find_file(output, "rejects/rejects.jsonl").open(encoding="utf-8")
        ]
        assert [reject["reason"] for reject in rejects] == [
            "template-refuses", "not-a-conversation", "not-a-conversation", "not-an-object",
        ]  # fmt: skip
        assert "Roles must alternate" in rejects[0]["detail"]
    table = pa.Table.from_pylist([*good, *bad[:2]])
    pq.write_table(table, tmp_path / "chat.parquet")
    build(tmp_path / "chat.parquet", tokenizer, tmp_path / "t.out", "--chat-template", template)
    lines = find_file(tmp_path / "t.out", "rejects/rejects.jsonl").read_text().splitlines()
    assert [json.loads(line)["row"] for line in lines] == [3, 4]


def test_what_is_learned_of_no_conversation_is_never_guessed(
    lines: Path, tokenizer: Path, tmp_path: Path
) -> None:
    named = ("--input", lines, "--tokenizer", tokenizer, "--output", tmp_path / "out")
    for template, cause in (
        ("{{ raise_exception('never') }}", "never"),
        ("{{ messages[-1].content }}", "cannot be told"),
    ):
        (tmp_path / "t.jinja").write_text(template)
        refused = ["no example was built", "template-refuses", cause]
        jobs.run_here("chat", *named, "--chat-template", tmp_path / "t.jinja", refused=refused)
        assert not (tmp_path / "out").exists()


def test_the_report_names_what_was_refused_unread_and_left_open(
    tokenizer: Path, tmp_path: Path, records: list[Record]
) -> None:
    template = tmp_path / "t.jinja"
    refuses = "{% if messages[0].role == 'pirate' %}{{ raise_exception('No pirates') }}{% endif %}"
    template.write_text(refuses + CHATML.template.replace("<|im_end|>", ""))
    pirate = {"messages": [{"role": "pirate", "content": "Arr"}, *MESSAGES]}
    narrator = {"messages": [*MESSAGES, {"role": "narrator", "content": "So it was."}]}
    more = [{**record, "id": 3, "history": [["a", "b"]]} for record in records]
    corpus = write_lines(tmp_path / "a.jsonl", [*more, pirate, narrator])
    shown = build(corpus, tokenizer, tmp_path / "out", "--chat-template", template).output
    for words in (
        "template-refuses 1", "No pirates", "history (90)", "narrator (1)", "--end-of-turn",
        "does not learn to stop", "id 90",
    ):  # fmt: skip
        assert words in " ".join(shown.split()), words
    assert "id (90)" not in shown  # which tells of a record
    jobs.run_here("verify", tmp_path / "out")
    named = ("--input", corpus, "--tokenizer", tokenizer, "--output", tmp_path / "long")
    long = ["longer than a row", "--max-seq-length"]
    jobs.run_here("chat", *named, "--max-seq-length", "4", refused=long)


@pytest.mark.parametrize("flags", [(), ("--text-field", "messages")])
def test_other_objectives_name_this_one(
    lines: Path, tokenizer: Path, tmp_path: Path, flags: tuple[str, ...]
) -> None:
    named = ("--input", lines, "--tokenizer", tokenizer, "--output", tmp_path / "out")
    jobs.run_here("gpt", *named, *flags, refused=["messages", "`corpusmill chat`"])
    pq.write_table(pa.Table.from_pylist([{"messages": MESSAGES}]), tmp_path / "a.parquet")
    named = ("--input", tmp_path / "a.parquet", *named[2:])
    jobs.run_here("gpt", *named, *flags, refused=["messages", "`corpusmill chat`"])


def test_options_that_do_not_suit_are_refused(lines: Path, tokenizer: Path, tmp_path: Path) -> None:
    text = tmp_path / "a.txt"
    text.write_text("plain\n")
    named = ("--tokenizer", tokenizer, "--output", tmp_path / "out")
    of_lines = ("--input", lines, *named)
    for flags, message in (
        (("--input", text, *named), "have no fields"),
        ((*of_lines, "--text-field", "a"), "--messages-field"),
        ((*of_lines, "--sentence-rule", "line"), "has no sentences"),
        ((*of_lines, "--chat-template", tmp_path / "none"), "no such file"),
        (("--input", lines, "--tokenizer", tokenizer / "tokenizer.json", "--learned-roles", "",
          "--output", tmp_path / "out"), "its value is empty"),
    ):  # fmt: skip
        jobs.run_here("chat", *flags, refused=[message])


def test_verify_inspect_trace_and_its_printed_options(
    built: Path, lines: Path, tokenizer: Path, tmp_path: Path
) -> None:
    jobs.run_here("verify", built)
    shown = jobs.run_here("inspect", built, "--html", tmp_path / "a.html").output
    assert "only this is learned: {learned}" in shown
    assert "of them learned" in shown
    assert "<|im_start|>assistant" in shown
    page = (tmp_path / "a.html").read_text(encoding="utf-8")
    assert '<span class="learned">' in page
    traced = jobs.run_here("trace", built, "--row", "0", "--input", lines, "--json").output
    assert json.loads(traced.splitlines()[0])["documents"]
    assert "<|im_start|>user" in traced
    assert not any("\ufdd0" <= letter <= "\ufdef" for letter in traced)
    again = tmp_path / "again"
    jobs.build_again(built, tokenizer, again, "--input", lines, objective="chat")
    assert jobs.digests(again) == jobs.digests(built)


def test_append_takes_the_same_template(lines: Path, tokenizer: Path, tmp_path: Path) -> None:
    build(lines, tokenizer, tmp_path / "out", "--provenance")
    more = write_lines(tmp_path / "more.jsonl", draw_conversations(40, seed=9))
    before = len(cut_rows(jobs.rows_of(tmp_path / "out")))
    build(more, tokenizer, tmp_path / "out", "--provenance", "--append")
    assert len(cut_rows(jobs.rows_of(tmp_path / "out"))) == before + 40
    jobs.run_here("verify", tmp_path / "out")


def test_long_conversations_are_left_out_counted_and_named(
    lines: Path, tokenizer: Path, tmp_path: Path, pieces: list[Piece]
) -> None:
    shown = build(lines, tokenizer, tmp_path / "out", "--max-seq-length", "64", "--provenance")
    long = sum(len(ids) > 64 for ids, _ in pieces)
    assert f"{long:,} of the documents are longer than a row" in shown.output
    assert cut_rows(jobs.rows_of(tmp_path / "out")) == sorted(p for p in pieces if len(p[0]) <= 64)
    jobs.run_here("verify", tmp_path / "out")
    named = jobs.run_here(
        "trace", tmp_path / "out", "--where", "tokens > 64", "--input", lines, "--no-text",
        "--limit", "0",
    )  # fmt: skip
    assert named.output.count("document ") == long


@pytest.mark.parametrize("output_format", ["mds", "tfrecord", "avro"])
def test_other_formats_hold_the_same_rows(
    lines: Path, tokenizer: Path, tmp_path: Path, pieces: list[Piece], output_format: str
) -> None:
    build(lines, tokenizer, tmp_path / "out", "--output-format", output_format)
    jobs.run_here("verify", tmp_path / "out")
    data = DataSet(tmp_path / "out")
    rows = [
        {name: values.tolist() for name, values in row.items()}
        for row in data.take(np.arange(len(data)))
    ]
    assert cut_rows(rows) == sorted(pieces)


def test_labels_of_trl_and_masks_of_megatron(
    built: Path, lines: Path, tokenizer: Path, tmp_path: Path
) -> None:
    build(lines, tokenizer, tmp_path / "out", "--mask", "labels")
    jobs.run_here("verify", tmp_path / "out")
    for row, other in zip(jobs.rows_of(tmp_path / "out"), jobs.rows_of(built), strict=True):
        pairs = zip(other["input_ids"], other["loss_mask"], strict=True)
        assert row["labels"] == [token if learned else -100 for token, learned in pairs]
    data = DataSet(built)
    rows = data.take(np.arange(3))
    batch = collator_for(data, layout="megatron")(rows)
    flat = [int(mask) for row in rows for mask in row["loss_mask"]]
    # A label is at the place before its token, and the first of a text has none before it.
    assert batch["loss_mask"].sum() == sum(flat)
    predicted = batch["labels"][batch["loss_mask"] == 1]
    tokens = np.concatenate([row["input_ids"] for row in rows])
    assert predicted.tolist() == tokens[np.array(flat) == 1].tolist()
    plain = collator_for(data)(rows)
    assert (plain["labels"] != -100).sum() == sum(flat)


@pytest.mark.parametrize("mask", ["loss_mask", "labels"])
def test_a_mixture_with_packed_text(
    lines: Path, tokenizer: Path, tmp_path: Path, mask: str
) -> None:
    text = tmp_path / "text.txt"
    text.write_text("The keeper saw a storm.\n\n" * 400, encoding="utf-8")
    build(lines, tokenizer, tmp_path / "chat", "--mask", mask)
    jobs.run_here(
        "gpt", "--input", text, "--tokenizer", tokenizer, "--output", tmp_path / "gpt", *OPTIONS,
        "--mode", "pack", "--document-rule", "blank-lines",
    )  # fmt: skip
    sources = {"chat": DataSet(tmp_path / "chat"), "gpt": DataSet(tmp_path / "gpt")}
    plain = collator_for(sources["gpt"])
    for names in (["chat", "gpt"], ["gpt", "chat"]):
        samples, order = mix({name: sources[name] for name in names}, dict.fromkeys(names, 1))
        first = sum(len(sources[name]) for name in names[: names.index("gpt")])
        rows = samples.take(np.arange(first, first + 5))
        mixed, own = collator_for(samples)(rows), plain(sources["gpt"].take(np.arange(5)))
        # Text of gpt is learned as it is alone: all but the first token of a document.
        assert np.array_equal(mixed["labels"], own["labels"])
        assert (mixed["labels"] != -100).mean() > 0.8
        assert set(samples.take(np.arange(1)).columns) == {"input_ids", "cu_seqlens", mask}
        batches = list(Loader(make_batches(samples, 4, order=order, seed=1)))
        shares = {round(float((batch["labels"] != -100).mean()), 2) for batch in batches}
        assert len(shares) > 1
    with pytest.raises(UserError, match="columns"):
        mix([sources["chat"], DataSet(_windows(tmp_path, text, tokenizer))], [1, 1])


def _windows(folder: Path, text: Path, tokenizer: Path) -> Path:
    jobs.run_here(
        "gpt", "--input", text, "--tokenizer", tokenizer, "--output", folder / "windows",
        "--mode", "windows", "--document-rule", "blank-lines", "--max-seq-length", "64",
    )  # fmt: skip
    return folder / "windows"


def test_a_small_llama_learns_the_turns_of_the_assistant_alone(built: Path) -> None:
    torch, transformers = import_module("torch"), import_module("transformers")
    torch.manual_seed(1)
    config = transformers.LlamaConfig(
        vocab_size=400, hidden_size=32, intermediate_size=64, num_hidden_layers=2,
        num_attention_heads=2, max_position_embeddings=LENGTH, use_cache=False,
        attn_implementation="eager",
    )  # fmt: skip
    model, data = transformers.LlamaForCausalLM(config), DataSet(built)
    optimizer = torch.optim.AdamW(model.parameters(), 3e-3)
    collate = collator_for(data)

    def measure() -> tuple[float, float]:
        """The loss of what is learned, and of the rest."""
        rows = data.take(np.arange(8))
        batch = {name: torch.from_numpy(array) for name, array in collate(rows).items()}
        ids, labels = batch["input_ids"], batch["labels"]
        with torch.no_grad():
            logits = model(input_ids=ids, position_ids=batch["position_ids"]).logits
        losses = torch.nn.functional.cross_entropy(
            logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten(), reduction="none"
        )
        is_learned = (labels[:, 1:] != -100).flatten()
        return float(losses[is_learned].mean()), float(losses[~is_learned].mean())

    before = measure()
    for step in range(60):
        rows = data.take(np.arange(step * 8, step * 8 + 8) % len(data))
        batch = {name: torch.from_numpy(array) for name, array in collate(rows).items()}
        names = ("input_ids", "labels", "position_ids")
        loss = model(**{name: batch[name] for name in names}).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    after = measure()
    assert after[0] < before[0] - 2
    # What is not learned gives no gradient: its first tokens stay as unlikely as they were.
    assert after[1] > after[0] + 1


# `train-tokenizer --for chat` reads conversations as the command chat does


def test_a_tokenizer_of_conversations(tmp_path: Path) -> None:
    trained = {}
    for container in ("JSON lines", "Parquet", "Avro"):
        end, _, write = CONTAINERS[container]
        corpus, output = tmp_path / f"{container}.in", tmp_path / f"{container}.json"
        corpus.mkdir()
        for layout, records in LAYOUTS.items():
            (corpus / f"{layout}.{end}").write_bytes(write([*records] * 20))
        named = ("--for", "chat", "--input", corpus, "--output", output)
        jobs.run_here("train-tokenizer", *named, "--vocab-size", "420")
        trained[container] = output.read_bytes()
    assert trained["Parquet"] == trained["Avro"] == trained["JSON lines"]
    tokenizer = Tokenizer.from_file(str(output))
    words = "What Rome Why Add See Hm description".split()  # noqa: SIM905
    assert [word for word in words if len(tokenizer.encode(word).tokens) == len(word)] == []


def test_records_with_a_text_are_read_by_it(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"text": "some words", "id": 1}\n' * 30)
    (tmp_path / "b.jsonl").write_text('{"body": "some words"}\n')
    output = tmp_path / "t.json"
    named = ("train-tokenizer", "--for", "chat", "--vocab-size", "300", "--output", output)
    jobs.run_here(*named, "--input", tmp_path / "a.jsonl")
    assert Tokenizer.from_file(str(output)).encode(" words").tokens == ["\u0120words"]
    refused = ["no such field", "body"]
    jobs.run_here(*named, "--replace", "--input", tmp_path / "b.jsonl", refused=refused)
    jobs.run_here(*named[:1], *named[3:], "--replace", "--input", tmp_path / "b.jsonl",
                  refused=refused)  # fmt: skip


def test_what_is_said_is_the_text() -> None:
    call = {"function": {"name": "f", "arguments": {"n": "x"}}}
    thinking = {"role": "assistant", "reasoning_content": "b", "content": "c"}
    parts = {"role": "user", "content": [{"type": "text", "text": "a"}]}
    calling = {"role": "assistant", "content": None, "tool_calls": [call]}
    maker = ChatOptions.tokenizer_texts()
    assert maker
    assert maker({"messages": [{"role": "user", "content": "a"}, thinking]}) == "a\nb\nc"
    said = '{"name": "f"}\na\n{"function": {"name": "f", "arguments": {"n": "x"}}}'
    assert maker({"messages": [parts, calling], "tools": [{"name": "f"}]}) == said

"""`train-tokenizer --for chat` reads conversations as the command chat does."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from corpusmill.objectives.chat import ChatOptions
from tests.tools import jobs
from tests.tools.containers import CONTAINERS, LAYOUTS


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
    @dataclass
    class Case:
        record: Mapping[str, Any]
        text: str

    call = {"function": {"name": "f", "arguments": {"n": "x"}}}
    cases = [
        Case({"messages": [{"role": "user", "content": "a"},
                           {"role": "assistant", "reasoning_content": "b", "content": "c"}]},
             "a\nb\nc"),
        Case({"messages": [{"role": "user", "content": [{"type": "text", "text": "a"}]},
                           {"role": "assistant", "content": None, "tool_calls": [call]}],
              "tools": [{"name": "f"}]},
             '{"name": "f"}\na\n{"function": {"name": "f", "arguments": {"n": "x"}}}'),
    ]  # fmt: skip
    maker = ChatOptions.tokenizer_texts()
    assert maker
    assert [maker(case.record) for case in cases] == [case.text for case in cases]

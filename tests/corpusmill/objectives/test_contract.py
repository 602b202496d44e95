"""Every objective keeps what the job, `verify` and the readers rely on."""

import hashlib
import json
from dataclasses import dataclass, replace

import pyarrow as pa
import pytest

from corpusmill.objectives.bert import BertOptions
from corpusmill.objectives.electra import ElectraOptions
from corpusmill.objectives.ernie import ErnieOptions
from corpusmill.objectives.gpt import Gpt, GptOptions
from corpusmill.objectives.objective import Repeat
from corpusmill.objectives.objective_options import ObjectiveOptions
from corpusmill.objectives.registry import OBJECTIVES
from corpusmill.objectives.t5 import T5Options
from corpusmill.testing import SmallBuild, check_objective, small_text, small_tokenizer
from corpusmill.testing.datasets import keyed_rows
from corpusmill.tokenization.tokenizer_file import Vocabulary
from tests.conftest import CHECKOUT
from tests.tools.builders import SPECIAL, batch_of, build_pass
from tests.tools.small_datasets import gpt_tokenizer

OPTIONS: dict[str, ObjectiveOptions] = {
    "bert": BertOptions(max_seq_length=64, duplicates=2),
    "bert dynamic": BertOptions(max_seq_length=64, mask="dynamic", whole_word_mask=True),
    "full sentences": BertOptions("full-sentences", 64, duplicates=2),
    "document sentences": BertOptions("doc-sentences", 64, duplicates=1),
    "sentence order": BertOptions("sentence-order", 64, duplicates=2, whole_word_mask=True),
    "packed": BertOptions("packed", 128, duplicates=2, masked_lm_prob=0.3, whole_word_mask=True),
    "each token": BertOptions(
        "packed", 128, 1, mask="dynamic", max_predictions_per_seq=None, draw_each_token=True
    ),
    "electra": ElectraOptions(max_seq_length=32, duplicates=2),
    "electra merged": ElectraOptions(max_seq_length=32, duplicates=2, merge_documents=True),
    "ernie": ErnieOptions(max_seq_length=32, duplicates=2),
    "ernie static": ErnieOptions(max_seq_length=32, duplicates=2, mask="static"),
    "gpt stream": GptOptions(),
    "gpt windows": GptOptions(mode="windows", max_seq_length=24, overlap=4),
    "gpt pack": GptOptions(mode="pack", max_seq_length=48),
    "gpt, middles of characters": GptOptions(fim_rate=0.7),
    "gpt windows, middles of tokens": GptOptions(
        mode="windows", max_seq_length=24, overlap=4, fim_rate=0.7, fim_cut="tokens"
    ),
    "gpt pack, middles of characters": GptOptions(mode="pack", max_seq_length=48, fim_rate=0.7),
    "t5": T5Options(max_seq_length=48, duplicates=2),
    "ul2 dynamic": T5Options.from_preset("ul2", max_seq_length=48, mask="dynamic"),
}
SENTINELS = (*(f"<extra_id_{number}>" for number in range(20)), "[R]", "[S]", "[X]")
MIDDLES = ("<|fim_prefix|>", "<|fim_middle|>", "<|fim_suffix|>")


@pytest.mark.parametrize("name", OPTIONS)
def test_an_objective_keeps_the_contract(name: str) -> None:
    check_objective(OPTIONS[name], small_tokenizer(*SENTINELS, *MIDDLES))


def test_sentences_that_no_row_can_hold_are_counted() -> None:
    corpus = {0: [[9] * 13, [9] * 15], 1: [[9]], 2: [[9] * 50]}
    tokenizer = replace(gpt_tokenizer(), vocab_size=2000, special=replace(SPECIAL, eos_id=5))
    for options in (
        BertOptions(max_seq_length=16, mask="dynamic"),
        BertOptions("sentence-order", 16, mask="dynamic"),
        ErnieOptions(max_seq_length=16),
        ElectraOptions(max_seq_length=16),
    ):
        objective, batch = options.bind(tokenizer), batch_of(corpus)
        rows = build_pass(objective, corpus)
        assert objective.count(batch, rows)["long_sentences"] == 2
        # A batch may be a slice of a larger one.
        rows = build_pass(objective, {2: corpus[2]})
        assert objective.count(batch.slice(2, 1), rows)["long_sentences"] == 1


# A change of these digests means that data sets which exist can no longer be built again as they
# are. Say so where the change is described, and write the new digests.
ROWS = CHECKOUT / "tests" / "data" / "rows.json"


@pytest.mark.parametrize("name", OPTIONS)
def test_rows_are_those_of_earlier_versions(name: str) -> None:
    build = SmallBuild(OPTIONS[name], small_tokenizer(*SENTINELS, *MIDDLES), small_text())
    digest = hashlib.sha256()
    for rows in keyed_rows(build):
        digest.update(str(rows.schema.remove_metadata()).encode())
        digest.update(json.dumps(rows.to_pylist(), default=bytes.hex).encode())
    assert digest.hexdigest() == json.loads(ROWS.read_text())[name]


@dataclass(frozen=True)
class Mistaken(Gpt):
    mistake: str = ""

    def build(self, documents: pa.RecordBatch, repeat: Repeat) -> pa.RecordBatch:
        rows = super().build(documents, repeat)
        if self.mistake == "raises":
            raise KeyError("texts")
        if self.mistake == "no identity":
            return rows.drop_columns(["repeat"])
        if self.mistake == "no rows":
            return rows.slice(0, 0)
        return pa.concat_batches([rows, rows])


@dataclass(frozen=True)
class MistakenOptions(GptOptions):
    mistake: str = ""

    def bind(self, tokenizer: Vocabulary) -> Mistaken:
        bound = super().bind(tokenizer)
        return Mistaken(self, bound.special, bound.token_dtype, mistake=self.mistake)


def test_an_author_is_told_which_part_is_mistaken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(OBJECTIVES._loaded, "gpt", MistakenOptions)
    for mistake, part in (
        ("raises", r"^`build` raises KeyError: 'texts'$"),
        ("no identity", "^the rows of `build` lack repeat, their identity$"),
        ("no rows", "^`build` returns no rows for the text"),
        ("twice", r"^`build` returns two rows that are \(.* \(document, repeat, index\)$"),
    ):
        with pytest.raises(AssertionError, match=part):
            check_objective(MistakenOptions(mistake=mistake), small_tokenizer(*MIDDLES))

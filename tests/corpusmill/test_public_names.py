"""The public surface: what it offers, and what it leaves alone until it is used."""

import os
import re
import subprocess
import sys
from importlib import import_module
from inspect import getdoc
from pathlib import Path

import pytest

import corpusmill
from corpusmill import DataSet, job
from corpusmill.errors import UserError
from corpusmill.reading.data_set import DataSet as DataSetOfReaders
from tests.conftest import CHECKOUT

_REFERENCE = CHECKOUT / "docs" / "reference" / "python"

# The public surface. Programs of others break when a name leaves it; a new name is added here, too.
NAMES = {
    "corpusmill": """
        Batches BertOptions ChatOptions DataSet Dataset ElectraOptions EpochBatchSampler
        ErnieOptions FixedBatches GptOptions LengthBatches Loader MapDataset MaskedDiffusion
        PaddingShare Reject Stage StreamingDataset T5Options TensorLoader TokenPacks TokenWindows
        UserError
        build collator_for document_attention drop inspect_corpus make_batches
        mix padding_share push read_rejects stream_state train_tokenizer verify
    """,
    "corpusmill.extending": """
        ANY_LENGTH Batch Collator CollatorOptions Column Columns CorpusFormat
        DataSetContents DocumentBatch DocumentOptions FileRange LONGEST_ROW
        Masker NO_PAD Needs Objective ObjectiveOptions OutputOptions Padding Preset
        Range ReadCounts RecordCollector Repeat Role Rows SPANS Samples ShardFormat
        ShardWriter Sinks Sources SpecialTokens SuitedTokenizer TextCuts TextMaker TextMarks
        UnreadableError Vocabulary
        arrow_schema attention_mask check_input_format check_objective check_output_format
        cut_lists cut_windows derive_keys draw join_lists locate_stretches measure_sentences
        njit pad purpose_of ragged refuse_others single_spans small_tokenizer span_lists
        to_below to_uniform unpack_documents
    """,
    "transforms": """
        BuildShards CANDIDATES COUNTS CommitDataset CommitOptions Comparison Count DOCUMENTS
        Decision FileNames FindDuplicates GatherShards Layout POOL Plan PlanTasks PoolOptions
        Preparation PrepareDocuments READ_RANGES REJECTS ReadDocuments RejectedRecord
        Routes SEGMENTS SHARDS SKETCHES Screening Segment ShardOptions StoredPassages TASKS Task
        TokenizeDocuments Tokenizing Workplace WritePool WrittenFile collect local_pipeline
        text_batch
    """,
}  # fmt: skip


@pytest.mark.parametrize("module", NAMES)
def test_no_name_leaves_the_surface(module: str) -> None:
    surface, names = import_module(module), set(NAMES[module].split())
    assert set(dir(surface)) - names == set(vars(surface)) - names
    # Constants and type aliases are explained on the pages of the reference.
    values = {name: getattr(surface, name) for name in names}
    undocumented = [
        name for name, value in values.items()
        if callable(value) and not name.isupper() and not getdoc(value)
    ]  # fmt: skip
    assert undocumented == []
    reference = " ".join(page.read_text(encoding="utf-8") for page in _REFERENCE.glob("*.md"))
    listed = names - {"Dataset"}
    assert [name for name in listed if not re.search(rf"\b{name}\b", reference)] == []


def test_a_data_set_has_two_spellings_and_a_name_that_is_none_is_refused() -> None:
    assert DataSet is corpusmill.Dataset is DataSetOfReaders
    assert corpusmill.__version__
    with pytest.raises(AttributeError, match="has no attribute 'DataSets'"):
        corpusmill.DataSets  # type: ignore[attr-defined]  # noqa: B018


def test_without_the_job_its_functions_say_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job, "find_job", lambda: None)
    monkeypatch.setattr(job, "__file__", "/elsewhere/corpusmill/job.py")
    with pytest.raises(UserError, match=r"not installed. Run pip install corpusmill-job\.$"):
        corpusmill.build("bert", ["a text"], "tokenizer.json", "out")


def test_importing_loads_no_heavy_library_and_writes_nothing(tmp_path: Path) -> None:
    code = (
        "import sys, corpusmill.extending; dir(corpusmill); dir(corpusmill.extending); "
        "print(sorted({'numba', 'numpy', 'pyarrow', 'tokenizers', 'torch'} & sys.modules.keys()))"
    )
    environment = {**os.environ, "PYTHONPATH": str(CHECKOUT), "HOME": str(tmp_path)}
    environment.pop("XDG_CACHE_HOME", None)
    environment["PYTHONDONTWRITEBYTECODE"] = "1"
    printed = subprocess.check_output(
        [sys.executable, "-c", code], cwd=tmp_path, env=environment, text=True
    )
    assert printed == "[]\n"
    assert list(tmp_path.iterdir()) == []


def test_a_data_set_says_what_it_is() -> None:
    folder = CHECKOUT / "tests" / "data" / "small_data_set"
    data = DataSet(folder)
    assert repr(data) == (
        f"<DataSet {data.digest[:16]} for bert, split 'train' of train: {len(data):,} rows of "
        f"{data.manifest.splits['train'].tokens:,} tokens, validation: 0 rows of 0 tokens>"
    )

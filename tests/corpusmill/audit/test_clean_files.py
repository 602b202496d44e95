"""Clean files, as the libraries of the tools write them, have no findings."""

import json
from collections.abc import Callable, Mapping
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tokenizers import Tokenizer, processors

from corpusmill.objectives.objective_options import ObjectiveOptions
from tests.corpusmill.audit.formats.test_audited_levanter import write_column, write_ledger
from tests.tools.chat_data import draw_conversations, write_lines, write_tokenizer
from tests.tools.jobs import run_here
from tests.tools.small_datasets import OBJECTIVES, Recipe, write_dataset
from tests.tools.token_files import (
    END,
    PAD,
    encode_texts,
    list_texts,
    make_tokenizer,
    save_tokenizer,
)

ROWS, WIDTH = 200, 128
FLAT = partial(chain.from_iterable)

Write = Callable[[Path], object]


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> str:
    return save_tokenizer(tmp_path_factory.mktemp("tokenizer") / "llama")


def assert_clean(folder: Path, writers: Mapping[str, Write], tokenizer: str = "") -> None:
    """Check that nothing is found in files, without their tokenizer and with it."""
    wrong = {}
    for name, write in writers.items():
        place, report = folder / name, folder / f"{name}.json"
        place.mkdir(parents=True)
        write(place)
        for flags in ((), ("--tokenizer", tokenizer))[: 2 if tokenizer else 1]:
            run_here("audit", place, "--json", report, *flags)
            if findings := json.loads(report.read_text())["findings"]:
                wrong[name, *flags] = [finding["what"] for finding in findings]
    assert not wrong


def test_tables(tmp_path: Path, tokenizer: str) -> None:
    datasets = pytest.importorskip("datasets", reason="datasets is not installed")
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    polars = pytest.importorskip("polars", reason="polars is not installed")
    rows = encode_texts(ROWS)
    columns = {"text": list_texts()[:ROWS], "input_ids": rows}
    columns["attention_mask"] = [[1] * len(row) for row in rows]
    made = datasets.Dataset.from_dict(columns)
    assert_clean(tmp_path, {
        "datasets-parquet": lambda f: made.to_parquet(f / "a.parquet"),
        "datasets-json": lambda f: made.to_json(f / "a.jsonl"),
        "datasets-disk": lambda f: made.save_to_disk(f / "a", num_shards=3),
        "pandas": lambda f: pandas.DataFrame(columns).to_parquet(f / "a.parquet"),
        "polars-parquet": lambda f: polars.DataFrame(columns).write_parquet(f / "a.parquet"),
        "polars-arrow": lambda f: polars.DataFrame(columns).write_ipc(f / "a.arrow"),
        "polars-json": lambda f: polars.DataFrame(columns).write_ndjson(f / "a.jsonl"),
    }, tokenizer)  # fmt: skip


def test_arrays(tmp_path: Path, tokenizer: str) -> None:
    ids = np.array([*FLAT(encode_texts(ROWS))])
    assert_clean(tmp_path, {
        "save": lambda f: np.save(f / "a.npy", ids),
        "save-two-dimensions": lambda f: np.save(
            f / "a.npy", ids[: len(ids) // WIDTH * WIDTH].reshape(-1, WIDTH).astype(np.uint16)
        ),
        "tofile": lambda f: ids.astype(np.uint16).tofile(f / "train.bin"),
        "tofile-wide": lambda f: ids.astype(np.uint32).tofile(f / "train.bin"),
    }, tokenizer)  # fmt: skip


def list_short() -> list[list[int]]:
    """Return documents of which none was cut."""
    return [row for row in encode_texts(5 * ROWS) if len(row) <= WIDTH]


def group(rows: list[list[int]]) -> list[list[int]]:
    """Cut rows that are joined at one length, as transformers' run_clm.py does."""
    ids = [*FLAT(rows)]
    return [ids[n : n + WIDTH] for n in range(0, len(ids) // WIDTH * WIDTH, WIDTH)]


def test_examples_of_transformers(tmp_path: Path, tokenizer: str) -> None:
    datasets = pytest.importorskip("datasets", reason="datasets is not installed")
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    pytest.importorskip("torch", reason="torch is not installed")
    loaded = transformers.PreTrainedTokenizerFast.from_pretrained(tokenizer)
    loaded.add_special_tokens({"mask_token": "<|mask|>"})
    loaded.save_pretrained(tmp_path / "tokenizer")
    rows = list_short()

    def write(folder: Path, columns: Mapping[str, Any]) -> None:
        datasets.Dataset.from_dict(columns).to_parquet(folder / "a.parquet")

    def collate(is_masked: bool, folder: Path) -> None:
        collator = transformers.DataCollatorForLanguageModeling(loaded, mlm=is_masked)
        batch = collator([{"input_ids": row, "attention_mask": [1] * len(row)} for row in rows])
        write(folder, {name: values.tolist() for name, values in batch.items()})

    windows = group(encode_texts(ROWS))
    assert_clean(tmp_path, {
        "collated": partial(collate, False),
        "masked": partial(collate, True),
        "run-clm": partial(write, columns={"input_ids": windows, "labels": windows}),
    }, str(tmp_path / "tokenizer"))  # fmt: skip


def test_packs_and_labels_of_trl(tmp_path: Path, tokenizer: str) -> None:
    datasets = pytest.importorskip("datasets", reason="datasets is not installed")
    trl = pytest.importorskip("trl", reason="TRL is not installed")
    made = datasets.Dataset.from_dict({"input_ids": list_short()})

    def pack(strategy: str, folder: Path) -> None:
        trl.pack_dataset(made, 3 * WIDTH, strategy).to_parquet(folder / "a.parquet")

    assert_clean(tmp_path, {
        strategy: partial(pack, strategy) for strategy in ("bfd", "bfd_split", "wrapped")
    }, tokenizer)  # fmt: skip


def test_labels_of_trl(tmp_path: Path, tokenizer: str) -> None:
    collators = pytest.importorskip("trl.trainer.sft_trainer", reason="TRL is not installed")
    datasets = pytest.importorskip("datasets", reason="datasets is not installed")
    rows = list_short()
    masks = [[0] * 20 + [1] * (len(row) - 20) for row in rows]

    def collate(folder: Path, column: str) -> None:
        collator = collators.DataCollatorForLanguageModeling(PAD)
        examples = zip(rows, masks, strict=True)
        batch = collator([{"input_ids": row, column: mask} for row, mask in examples])
        columns = {name: values.tolist() for name, values in batch.items()}
        datasets.Dataset.from_dict(columns).to_parquet(folder / "a.parquet")

    def write(folder: Path, column: str) -> None:
        made = datasets.Dataset.from_dict({"input_ids": rows, column: masks})
        made.to_parquet(folder / "a.parquet")

    names = ("completion_mask", "assistant_masks")
    assert_clean(tmp_path, {
        **{f"{name}-collated": partial(collate, column=name) for name in names},
        **{name: partial(write, column=name) for name in names},
    }, tokenizer)  # fmt: skip


# As ChatML's, with the marks that transformers takes the mask from.
_CHAT = (
    "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' }}{% if m.role == 'assistant' %}"
    "{% generation %}{{ m.content + '<|im_end|>' }}{% endgeneration %}"
    "{% else %}{{ m.content + '<|im_end|>' }}{% endif %}{{ '\n' }}{% endfor %}"
)


def test_conversations(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets", reason="datasets is not installed")
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    folder = str(write_tokenizer(tmp_path / "tokenizer"))
    loaded = transformers.PreTrainedTokenizerFast.from_pretrained(folder)
    encoded = [
        loaded.apply_chat_template(
            talk["messages"],
            chat_template=_CHAT,
            return_dict=True,
            return_assistant_tokens_mask=True,
        )
        for talk in draw_conversations(ROWS)
    ]
    ids = [row["input_ids"] for row in encoded]
    masks = [row["assistant_masks"] for row in encoded]
    labels = [
        [token if is_learned else -100 for token, is_learned in zip(row, mask, strict=True)]
        for row, mask in zip(ids, masks, strict=True)
    ]

    def write(folder: Path, **columns: Any) -> None:
        datasets.Dataset.from_dict({"input_ids": ids, **columns}).to_parquet(folder / "a.parquet")

    writers: dict[str, Write] = {
        "masks": partial(write, assistant_masks=masks),
        "labels": partial(write, labels=labels),
        "ids": write,
    }
    assert_clean(tmp_path / "out", writers, folder)
    # The end is known behind which a line break stands, and missed where a mask leaves it out.
    end = loaded.eos_token_id
    cut = [
        [int(is_learned and token != end) for token, is_learned in zip(row, mask, strict=True)]
        for row, mask in zip(ids, masks, strict=True)
    ]
    write(tmp_path, assistant_masks=cut)
    run_here("audit", tmp_path / "a.parquet", "--json", tmp_path / "report.json")
    findings = json.loads((tmp_path / "report.json").read_text())["findings"]
    assert [finding["name"] for finding in findings] == ["unlearned ends"]


def test_shards_of_libraries_that_train(tmp_path: Path, tokenizer: str) -> None:
    streaming = pytest.importorskip("streaming", reason="MosaicML's streaming is not installed")
    litdata = pytest.importorskip("litdata", reason="LitData is not installed")
    torch = pytest.importorskip("torch", reason="torch is not installed")
    rows = encode_texts(ROWS)

    def write_mds(folder: Path, encoding: str, encode: Callable[[list[int]], object]) -> None:
        with streaming.MDSWriter(out=str(folder), columns={"tokens": encoding}) as writer:
            for row in group(rows):
                writer.write({"tokens": encode(row)})

    def optimize(folder: Path) -> None:
        litdata.optimize(
            fn=partial(torch.tensor, dtype=torch.int32),
            inputs=rows,
            output_dir=str(folder),
            chunk_size=8 * (WIDTH + 1),
            item_loader=litdata.TokensLoader(),
            num_workers=1,
        )

    assert_clean(tmp_path, {
        # llm-foundry's convert_dataset_hf.py writes bytes of int64, and later of int32 arrays.
        "bytes": partial(write_mds, encoding="bytes", encode=lambda r: np.array(r).tobytes()),
        "arrays": partial(
            write_mds, encoding="ndarray:int32", encode=lambda r: np.array(r, np.int32)
        ),
        "litdata": optimize,
    }, tokenizer)  # fmt: skip


def test_shards_of_datatrove(tmp_path: Path) -> None:
    data = pytest.importorskip("datatrove.data", reason="datatrove is not installed")
    tokens = pytest.importorskip("datatrove.pipeline.tokens")
    documents = [data.Document(text=text, id=str(n)) for n, text in enumerate(list_texts()[:ROWS])]
    # It replaces what a tokenizer adds to each text by the end alone.
    plain = Tokenizer.from_str(make_tokenizer().to_str())
    plain.post_processor = processors.ByteLevel(trim_offsets=False)
    file = str(tmp_path / "tokenizer.json")
    plain.save(file)

    def write(folder: Path, step: Any, **options: Any) -> None:
        options |= {"tokenizer_name_or_path": file, "eos_token": "<|end_of_text|>"}
        step(str(folder), **options).run(iter(documents))

    assert_clean(tmp_path, {
        "nanotron": partial(write, step=tokens.DocumentTokenizer),
        "nanotron-shuffled": partial(write, step=tokens.DocumentTokenizer, shuffle_documents=True),
        "megatron": partial(write, step=tokens.MegatronDocumentTokenizer),
    }, file)  # fmt: skip


def test_megatron(tmp_path: Path, tokenizer: str) -> None:
    indexed = pytest.importorskip(
        "megatron.core.datasets.indexed_dataset", reason="megatron-core is not installed"
    )
    torch = pytest.importorskip("torch", reason="torch is not installed")

    def write(folder: Path, dtype: type) -> None:
        made = indexed.IndexedDatasetBuilder(str(folder / "a.bin"), dtype=dtype)
        for row in encode_texts(ROWS):
            made.add_document(torch.tensor(row), [len(row)])
        made.finalize(str(folder / "a.idx"))

    assert_clean(tmp_path, {
        "uint16": partial(write, dtype=np.uint16), "int32": partial(write, dtype=np.int32),
    }, tokenizer)  # fmt: skip


def test_olmo(tmp_path: Path, tokenizer: str) -> None:
    utils = pytest.importorskip("olmo_core.data.utils", reason="ai2-olmo-core is not installed")

    def write(folder: Path) -> None:
        np.array([*FLAT(encode_texts(ROWS))], np.uint32).tofile(folder / "part-0.npy")
        utils.write_document_indices(folder / "part-0.npy", dtype=np.uint32, eos_token_id=END)

    assert_clean(tmp_path, {"olmo": write}, tokenizer)


def test_levanter(tmp_path: Path, tokenizer: str) -> None:
    rows = encode_texts(ROWS)

    def write(folder: Path) -> None:
        write_column(folder / "input_ids", rows, chunk=2**12)
        write_ledger(folder, total_num_rows=ROWS)

    assert_clean(tmp_path, {"levanter": write}, tokenizer)


def test_data_sets_of_ours(tmp_path: Path) -> None:
    recipes: dict[str, ObjectiveOptions] = {**OBJECTIVES}

    def write(folder: Path, options: ObjectiveOptions) -> None:
        write_dataset(folder / "made", Recipe(options))

    def chat(folder: Path) -> None:
        lines = write_lines(tmp_path / "chat.jsonl", draw_conversations(ROWS))
        named = ("--tokenizer", write_tokenizer(tmp_path / "tokenizer"), "--seed", "1")
        output = ("--output", folder / "made", "--max-seq-length", "512", "--num-shards", "2")
        run_here("chat", "--input", lines, *named, *output)

    writers = {name: partial(write, options=options) for name, options in recipes.items()}
    assert_clean(tmp_path / "out", {**writers, "chat": chat})

"""The loaders of trainers that read MDS: ModernBERT's, EuroBERT's and llm-foundry's."""

import json
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tokenizers import Tokenizer

from corpusmill.dataset.manifest import Manifest
from corpusmill.dataset.shards import read_manifest
from corpusmill.formats.output_options import OutputOptions
from corpusmill.location import locate
from corpusmill.objectives.gpt import GptOptions
from tests.conftest import CHECKOUT
from tests.docs.pages import Session, read_blocks
from tests.tools.jobs import run_here
from tests.tools.small_datasets import SAMPLE, Recipe, write_dataset
from tests.tools.trainer_programs import BATCHES, borrow, load, tokens_of

Documents = list[tuple[int, ...]]
LONGEST, WIDTH = 2048, 256


@pytest.fixture
def documents(tmp_path: Path) -> Documents:
    """The documents of the train split of a data set `mds`."""
    found = write_documents(tmp_path / "mds")
    assert len(found) > BATCHES
    assert max(map(len, found)) < LONGEST
    return found


def write_documents(folder: Path, split: str = "train", **options: Any) -> Documents:
    """Write a data set, and return the tokens of the rows of a split."""
    recipe = Recipe(GptOptions(**options), OutputOptions("mds"), text=2 * SAMPLE)
    return tokens_of(folder, write_dataset(folder, recipe), split)


class PlainTokenizer:
    """What the loaders ask of a tokenizer."""

    pad_token, pad_token_id, _pad_token = "[PAD]", 0, "[PAD]"
    mask_token, mask_token_id = "[MASK]", 4
    padding_side = "right"

    def __len__(self) -> int:
        return 601

    def get_special_tokens_mask(self, ids: Any, already_has_special_tokens: bool) -> list[bool]:
        assert already_has_special_tokens
        return [False] * len(ids)

    def convert_tokens_to_ids(self, token: str) -> int:
        assert token == self.mask_token
        return self.mask_token_id


def give_index(folder: Path) -> None:
    """Do what the page says for trainers that read the column `tokens`."""
    blocks = read_blocks(CHECKOUT / "docs" / "how-to" / "read-with-other-trainers.md")
    [block] = [block for block in blocks if "mds-tokens" in block.code and block.language == "sh"]
    Session(folder).follow(block)


def test_modernbert_packs_our_documents(tmp_path: Path, documents: Documents) -> None:
    with borrow("ModernBERT", bare=["src"]):
        data = load("src.text_data")
        settings = load("omegaconf").OmegaConf.create({
            "name": "text",
            "dataset": {
                "local": str(tmp_path / "mds"), "split": None, "streaming": False,
                "max_seq_len": WIDTH, "shuffle": True, "mlm_probability": 0.3,
            },
            "drop_last": True, "num_workers": 0, "sequence_packing": True, "pin_memory": False,
            "prefetch_factor": None, "persistent_workers": False,
        })  # fmt: skip
        batches = data.build_text_dataloader(settings, PlainTokenizer(), 1, 1)
        found = list(islice(iter(batches), BATCHES))
    assert len(found) == BATCHES
    left = [document[:WIDTH] for document in documents]
    for batch in found:
        labels, is_text = batch["labels"][0], batch["attention_mask"][0] == 1
        row = batch["input_ids"][0].where(labels == -100, labels)
        for begin, end in pairwise(batch["cu_seqlens"][0].tolist()):
            if is_text[begin]:
                left.remove(tuple(row[begin:end].tolist()))
    shares = [float((batch["labels"] != -100).sum() / WIDTH) for batch in found]
    assert 0.2 < np.mean(shares) < 0.35


def test_modernbert_reads_windows_of_both_splits(tmp_path: Path) -> None:
    with borrow("ModernBERT", bare=["src"]):
        data = load("src.text_data")
        for split, inner in (("train", None), ("validation", "validation")):
            folder = tmp_path / split
            rows = write_documents(folder, split, mode="windows", max_seq_length=WIDTH)
            samples = data.NoStreamingDataset(str(folder), inner, WIDTH, pad_sequences=False)
            assert [tuple(samples[place]["input_ids"]) for place in range(len(samples))] == rows


def test_eurobert_masks_our_documents(tmp_path: Path) -> None:
    manifest = write_wide(tmp_path)
    give_index(tmp_path)
    (tmp_path / "train.json").write_text(json.dumps([{"local": str(tmp_path / "mds-tokens")}]))
    with borrow("EuroBERT"):
        data = load("optimus.trainer.data")
        config = load("optimus.trainer.configuration.configs").Config(
            data_mix_path=str(tmp_path), batch_size=1, num_workers=0, prefetch_factor=0,
            var_len=True, pin_memory=False,
        )  # fmt: skip
        loader = data.Data(config, PlainTokenizer()).train_dataloader
        found = list(islice(loader, BATCHES))
    left = tokens_of(tmp_path / "mds", manifest)
    for batch in found:
        inputs, labels = batch["x"].numpy(), batch["labels"].numpy()
        assert (inputs[labels != -100] == 4).all()
        left.remove(tuple(np.where(labels == -100, inputs, labels).tolist()))
    assert len(found) == BATCHES


def test_llm_foundry_reads_our_documents(tmp_path: Path, documents: Documents) -> None:
    give_index(tmp_path)
    packages = ["llmfoundry", "llmfoundry.data", "llmfoundry.utils"]
    with borrow("llm-foundry", bare=packages):
        data = load("llmfoundry.data.text_data")
        samples = data.StreamingTextDataset(
            tokenizer=PlainTokenizer(), max_seq_len=LONGEST, local=str(tmp_path / "mds-tokens"),
            batch_size=1, shuffle=True,
        )  # fmt: skip
        left = list(documents)
        for tokens in islice(samples, BATCHES):
            left.remove(tuple(tokens.tolist()))
    assert len(left) == len(documents) - BATCHES


def write_wide(folder: Path) -> Manifest:
    """Build `mds` with a vocabulary of more than 65,536 tokens, as EuroBERT's is."""
    tokenizer = Tokenizer.from_file(str(CHECKOUT / "tests" / "data" / "tokenizer.json"))
    tokenizer.add_tokens([f"unused{number}" for number in range(70_000)])
    tokenizer.add_special_tokens(["<|endoftext|>"])
    tokenizer.save(str(folder / "wide.json"))
    (folder / "text").write_bytes(2 * SAMPLE)
    run_here(
        "gpt", "--input", str(folder / "text"), "--tokenizer", str(folder / "wide.json"),
        "--output", str(folder / "mds"), "--output-format", "mds", "--num-shards", "2",
        "--document-rule", "wikitext",
    )  # fmt: skip
    return read_manifest(locate(str(folder / "mds")))

"""Megatron-Core's own GPTDataset over our .bin and .idx, with its masks between documents."""

from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from corpusmill.formats.output_options import OutputOptions
from corpusmill.objectives.gpt import GptOptions
from tests.tools.small_datasets import SAMPLE, Recipe, write_dataset
from tests.tools.trainer_programs import BATCHES, borrow, load, tokens_of

LENGTH = 64
END = 600  # the tokenizer's last token
Documents = list[tuple[int, ...]]


@pytest.fixture
def documents(tmp_path: Path) -> Documents:
    """The documents of a data set of one shard, in its order."""
    recipe = Recipe(GptOptions(), OutputOptions("megatron"), shards=1, text=2 * SAMPLE)
    manifest = write_dataset(tmp_path / "megatron", recipe)
    found = tokens_of(tmp_path / "megatron", manifest)
    assert {document[-1] for document in found} == {END}
    return found


def open_samples(folder: Path, **options: Any) -> Any:
    """Return the samples that Megatron-Core makes of the shard, in an order of its own."""
    module = load("megatron.core.datasets.gpt_dataset")
    load("megatron.core.datasets.helpers_cpp")
    split = load("megatron.core.datasets.utils").Split.train
    tokenizer = SimpleNamespace(eod=END, pad=-1, vocab_size=END + 1, unique_identifiers={})
    config = module.GPTDatasetConfig(
        random_seed=1, sequence_length=LENGTH, split="1", path_to_cache=str(folder / "cache"),
        tokenizer=tokenizer, **{"reset_position_ids": False, "reset_attention_mask": False,
        "eod_mask_loss": False, **options},
    )  # fmt: skip
    prefix = str(folder / "megatron" / "train-00000-of-00001")
    shard = module.GPTDataset.build_low_level_dataset(prefix, config)
    numbers = np.arange(len(shard.sequence_lengths), dtype=np.int32)
    return module.GPTDataset(shard, prefix, numbers, None, split, config)


def expect_samples(samples: Any, documents: Documents) -> tuple[list[int], list[int], list[int]]:
    """Return our tokens in Megatron's order of documents, places in documents, and its samples."""
    order = [documents[number] for number in samples.document_index]
    tokens = [token for document in order for token in document]
    places = [place for document in order for place in range(len(document))]
    return tokens, places, samples.shuffle_index.tolist()


def test_its_tokenizer_is_the_folder_of_the_data_set(tmp_path: Path, documents: Documents) -> None:
    with borrow("Megatron-LM"):
        folder, library = str(tmp_path / "megatron"), {"library": "huggingface"}
        module = load("megatron.core.tokenizers")
        tokenizer = module.MegatronTokenizer.from_pretrained(folder, metadata_path=library)
        assert (tokenizer.eod, tokenizer.vocab_size) == (END, END + 1)
        assert documents[0][-1] == tokenizer.eod != tokenizer.pad


def test_its_index_has_our_documents(tmp_path: Path, documents: Documents) -> None:
    with borrow("Megatron-LM"):
        module = load("megatron.core.datasets.indexed_dataset")
        shard = module.IndexedDataset(str(tmp_path / "megatron" / "train-00000-of-00001"))
        assert [tuple(row) for row in shard] == documents
        assert shard.document_indices.tolist() == list(range(len(documents) + 1))


def test_masks_by_the_end_of_text_begin_anew_with_each_document(
    tmp_path: Path, documents: Documents
) -> None:
    with borrow("Megatron-LM"):
        reset = dict.fromkeys(("reset_position_ids", "reset_attention_mask", "eod_mask_loss"), True)
        samples = open_samples(tmp_path, **reset)
        tokens, places, numbers = expect_samples(samples, documents)
        for number in range(BATCHES):
            sample, begin = samples[number], LENGTH * numbers[number]
            owners = np.cumsum(np.array(places[begin : begin + LENGTH]) == 0)
            assert sample["tokens"].tolist() == tokens[begin : begin + LENGTH]
            assert sample["labels"].tolist() == tokens[begin + 1 : begin + LENGTH + 1]
            first = places[begin]
            positions = [
                place - (first if owner == owners[0] and first else 0)
                for place, owner in zip(places[begin : begin + LENGTH], owners, strict=True)
            ]
            assert sample["position_ids"].tolist() == positions
            # True where a token must not look.
            allowed = (owners[:, None] == owners) & np.tri(LENGTH, dtype=bool)
            assert (~sample["attention_mask"][0].numpy() == allowed).all()
            is_end = [place == 0 for place in places[begin + 1 : begin + LENGTH + 1]]
            assert (sample["loss_mask"] == 0).tolist() == is_end


def test_masks_by_the_index_end_where_our_documents_end(
    tmp_path: Path, documents: Documents
) -> None:
    with borrow("Megatron-LM"):
        module = load("megatron.core.datasets.gpt_dataset")
        if not hasattr(module.GPTDatasetConfig, "inter_document_masking"):
            pytest.skip("this Megatron-Core has no inter_document_masking")
        samples = open_samples(
            tmp_path, inter_document_masking=True, create_attention_mask=False, eod_mask_loss=True
        )
        tokens, places, numbers = expect_samples(samples, documents)
        for number in range(BATCHES):
            sample, begin = samples[number], LENGTH * numbers[number]
            assert sample["tokens"].tolist() == tokens[begin : begin + LENGTH]
            marks = sample["cu_seqlens"].tolist()
            inner = [place for place in range(1, LENGTH) if places[begin + place] == 0]
            assert marks == [0, *inner, *[LENGTH] * (LENGTH - len(inner))]
            bounds = pairwise([0, *inner, LENGTH])
            positions = [place for begin, end in bounds for place in range(end - begin)]
            assert sample["position_ids"].tolist() == positions
            is_end = [token == END for token in tokens[begin : begin + LENGTH]]
            assert (sample["loss_mask"] == 0).tolist() == is_end

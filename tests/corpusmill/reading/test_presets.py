"""Each preset gives the rows that the model of its name learns from."""

from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from corpusmill.objectives.registry import OBJECTIVES
from corpusmill.reading.data_set import DataSet, Samples
from corpusmill.reading.load.loader import make_batches
from corpusmill.reading.token_windows import TokenWindows
from corpusmill.reading.torch.dataset import TensorLoader
from corpusmill.reading.torch.document_attention import document_attention
from corpusmill.testing import SmallBuild, small_text, small_tokenizer, write_dataset
from tests.tools.lazily import LazyModule

transformers = LazyModule("transformers")

_TOKENIZER = small_tokenizer(
    *(f"<extra_id_{number}>" for number in range(40)), "[NLU]", "[NLG]", "[S2S]"
)
_SMALL: dict[str, Any] = {
    "vocab_size": _TOKENIZER.vocab_size,
    "hidden_size": 32,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 64,
    "max_position_embeddings": 80,
    "pad_token_id": _TOKENIZER.special.pad_id,
}
_EMBEDDED = {**_SMALL, "embedding_size": 16}


def _bert() -> Any:
    return transformers.BertForPreTraining(transformers.BertConfig(**_SMALL))


def _t5() -> Any:
    sizes = {"d_model": 32, "d_kv": 16, "d_ff": 64, "num_layers": 1, "num_heads": 2}
    config = transformers.T5Config(
        vocab_size=_TOKENIZER.vocab_size, decoder_start_token_id=0, pad_token_id=0, **sizes
    )
    return transformers.T5ForConditionalGeneration(config)


# Model of each preset, and the options that make its rows small.
MODELS: dict[str, tuple[Callable[[], Any], dict[str, Any]]] = {
    "bert-article": (_bert, {"duplicates": 2}),
    "bert-google": (_bert, {"duplicates": 2}),
    "albert": (
        lambda: transformers.AlbertForPreTraining(transformers.AlbertConfig(**_EMBEDDED)),
        {"duplicates": 2},
    ),
    "roberta": (
        lambda: transformers.RobertaForMaskedLM(transformers.RobertaConfig(**_SMALL)), {}
    ),
    "modernbert": (
        lambda: transformers.ModernBertForMaskedLM(
            transformers.ModernBertConfig(
                **_SMALL, cls_token_id=2, sep_token_id=3, attn_implementation="documents"
            )
        ),
        {},
    ),
    "distilbert": (
        lambda: transformers.DistilBertForMaskedLM(
            transformers.DistilBertConfig(
                vocab_size=_TOKENIZER.vocab_size, dim=32, n_layers=1, n_heads=2, hidden_dim=64
            )
        ),
        {},
    ),
    "electra": (
        lambda: transformers.ElectraForMaskedLM(transformers.ElectraConfig(**_EMBEDDED)), {}
    ),
    "deberta-v3": (
        lambda: transformers.DebertaV2ForMaskedLM(transformers.DebertaV2Config(**_SMALL)), {}
    ),
    "ernie": (
        lambda: transformers.ErnieForPreTraining(transformers.ErnieConfig(**_SMALL)),
        {"duplicates": 2},
    ),
    "gpt2": (
        lambda: transformers.GPT2LMHeadModel(
            transformers.GPT2Config(
                vocab_size=_TOKENIZER.vocab_size, n_embd=32, n_layer=1, n_head=2
            )
        ),
        {},
    ),
    "t5": (_t5, {"duplicates": 4}),
    "ul2": (_t5, {"duplicates": 4}),
}  # fmt: skip
PRESETS = {preset: options for options in OBJECTIVES.values() for preset in options.presets}


def test_every_preset_is_trained_with_its_model() -> None:
    assert MODELS.keys() == PRESETS.keys()


@pytest.mark.parametrize("name", MODELS)
def test_the_model_of_a_preset_learns(name: str, tmp_path: Path) -> None:
    make_model, changes = MODELS[name]
    options = PRESETS[name].from_preset(name, **{"max_seq_length": 64, **changes})
    write_dataset(tmp_path / "data", SmallBuild(options, _TOKENIZER, small_text()))
    samples: Samples = DataSet(tmp_path / "data", cache_folder=tmp_path / "cache")
    if name == "gpt2":
        samples = TokenWindows(samples, 64)  # type: ignore[arg-type]
    torch.manual_seed(1)
    transformers.AttentionInterface.register("documents", document_attention)
    model = make_model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-2)
    losses: list[float] = []
    loader = TensorLoader(make_batches(samples, 8, seed=1), prefetch_factor=0)
    while len(losses) < 16:
        for batch in islice(loader, 16 - len(losses)):
            loss = model(**batch).loss
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    assert np.mean(losses[-5:]) < np.mean(losses[:3]) - 0.4, losses

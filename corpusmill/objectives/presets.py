"""Presets: the options under which models were trained, as far as their authors tell.

A preset says how rows are made, not which text or tokenizer they are made of.
"""

from collections.abc import Mapping

from corpusmill.objectives.objective_options import Preset

_DYNAMIC = {"mask": "dynamic", "max_predictions_per_seq": None, "duplicates": 1}

BERT_PRESETS: Mapping[str, Preset] = {
    "bert-article": Preset(
        {},
        "the article's program, as are the defaults. It differs from Google's: a chunk takes one "
        "sentence more, and a segment that fills the target has no second one",
    ),
    "bert-google": Preset(
        {"pairs": "google", "max_seq_length": 128},
        "google-research/bert, create_pretraining_data.py, its defaults",
    ),
    "albert": Preset(
        {
            "segments": "sentence-order",
            "pairs": "google",
            "duplicates": 40,
            "whole_word_mask": True,
            "ngram": 3,
            "words": "wordpiece",
        },
        "google-research/albert, create_pretraining_data.py, its defaults",
    ),
    "roberta": Preset(
        {"segments": "full-sentences", **_DYNAMIC},
        "Liu et al. 2019, section 4: full sentences across documents, masks drawn anew in each "
        "epoch",
    ),
    "modernbert": Preset(
        {"segments": "packed", "max_seq_length": 1024, "masked_lm_prob": 0.3, **_DYNAMIC},
        "Warner et al. 2024, section 2.2: packed documents, 30 % of tokens masked, rows of 1,024 "
        "tokens and later of 8,192; their program draws as --draw-each-token does",
    ),
    "distilbert": Preset(
        {"segments": "doc-sentences", **_DYNAMIC},
        "Sanh et al. 2019, section 3: no next sentences, masks drawn anew; their program makes a "
        "row of each line, this one of as many sentences of a document as fit",
    ),
}

ELECTRA_PRESETS: Mapping[str, Preset] = {
    "electra": Preset({}, "google-research/electra, build_pretraining_dataset.py, its defaults"),
    "deberta-v3": Preset(
        {"max_seq_length": 512, "merge_documents": True},
        "He et al. 2021, and prepare_data.py of microsoft/DeBERTa: ELECTRA's replaced tokens, all "
        "documents joined and cut into rows of 512 tokens; for a tokenizer of train-tokenizer "
        "--model unigram",
    ),
}

ERNIE_PRESETS: Mapping[str, Preset] = {
    "ernie": Preset({}, "Sun et al. 2019 and the article, as are the defaults"),
}

GPT_PRESETS: Mapping[str, Preset] = {
    "gpt2": Preset(
        {"mode": "stream", "max_seq_length": 1024},
        "Radford et al. 2019: one stream of documents, read in windows of 1,024 tokens",
    ),
}

T5_PRESETS: Mapping[str, Preset] = {
    "t5": Preset({}, "Raffel et al. 2020, section 3.1.4, and their program, as are the defaults"),
    "ul2": Preset(
        {"denoisers": "ul2"},
        "Tay et al. 2022, table 1: seven denoisers, equally likely; the lengths of spans are drawn "
        "as in their program, and not from normal distributions; --denoisers ul2-program has its "
        "longer targets of S, too",
    ),
}

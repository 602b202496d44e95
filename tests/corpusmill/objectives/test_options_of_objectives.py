"""Options with which an objective builds nothing are refused by name, value and cure."""

from typing import Any

import pytest

from corpusmill.errors import UserError
from corpusmill.objectives.bert import BertOptions
from corpusmill.objectives.electra import ElectraOptions
from corpusmill.objectives.ernie import ErnieOptions
from corpusmill.objectives.gpt import GptOptions
from corpusmill.objectives.objective_options import ObjectiveOptions

REFUSED: tuple[tuple[type[ObjectiveOptions], dict[str, Any], str], ...] = (
    (BertOptions, {"max_seq_length": 4}, "--max-seq-length 4: .*5 to 65535"),
    (BertOptions, {"max_seq_length": 65536}, "--max-seq-length 65536: "),
    (BertOptions, {"duplicates": 0}, "--duplicates 0: "),
    (BertOptions, {"duplicates": 65536}, "--duplicates 65536: "),
    (BertOptions, {"short_seq_prob": -0.1}, "--short-seq-prob -0.1: "),
    (BertOptions, {"short_seq_prob": float("nan")}, "--short-seq-prob nan: "),
    (BertOptions, {"masked_lm_prob": 0.0}, "--masked-lm-prob 0.0: "),
    (BertOptions, {"max_predictions_per_seq": 0}, "--max-predictions-per-seq 0: "),
    (BertOptions, {"pool_tokens": 0}, "--pool-tokens 0: "),
    (BertOptions, {"pool_tokens": 2**48}, "--pool-tokens 281474976710656: "),
    (BertOptions, {"ngram": 3}, "--ngram 3: it needs --whole-word-mask"),
    (BertOptions, {"words": "jieba"}, "--words jieba: it needs --whole-word-mask"),
    (BertOptions, {"whole_word_mask": True, "ngram": 101}, "--ngram 101: "),
    (BertOptions, {"pairs": "googol"}, "--pairs googol: .*one of article, google"),
    (BertOptions, {"pairs": "google", "segments": "doc-sentences"}, "--pairs google: .*doc-sent"),
    (ElectraOptions, {"max_seq_length": 4}, "--max-seq-length 4: .*5 to 65535"),
    (ElectraOptions, {"duplicates": 0}, "--duplicates 0: .*1 to 65535"),
    (ElectraOptions, {"short_seq_prob": 1.1}, "--short-seq-prob 1.1: .*0 to 1"),
    (ElectraOptions, {"single_segment_prob": -0.1}, "--single-segment-prob -0.1: .*0 to 1"),
    (ElectraOptions, {"overflow": "cut"}, "--overflow cut: .*one of drop, keep"),
    (ErnieOptions, {"max_seq_length": 4}, "--max-seq-length 4: "),
    (ErnieOptions, {"duplicates": 0}, "--duplicates 0: "),
    (ErnieOptions, {"mask_word_prob": 1.1}, "--mask-word-prob 1.1: "),
    (ErnieOptions, {"pool_tokens": 0}, "--pool-tokens 0: "),
    (ErnieOptions, {"words": ""}, "--words : "),
    (GptOptions, {"max_seq_length": 1}, "--max-seq-length 1: .*2 to 1048576"),
    (GptOptions, {"mode": "windows", "overlap": 1024}, "--overlap 1024: .*of a window, 1024"),
    (GptOptions, {"mode": "windows", "overlap": -1}, "--overlap -1: .*a tenth to a quarter"),
    (GptOptions, {"mode": "pack", "overlap": 1}, "--overlap 1: it needs --mode windows"),
)


def test_options_that_build_nothing_are_refused() -> None:
    for options_type, options, message in REFUSED:
        with pytest.raises(UserError, match=f"^{message}"):
            options_type(**options)

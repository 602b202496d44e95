"""The tokenizer of bytes: its ids, what it spells, and the special tokens of all objectives."""

import numpy as np
import pytest

from corpusmill.errors import UserError
from corpusmill.objectives.registry import OBJECTIVES
from corpusmill.tokenization.sentence_tokenizer import SentenceTokenizer
from corpusmill.tokenization.sources.proof import HARD_TEXTS
from corpusmill.tokenization.sources.read import read_tokenizer
from corpusmill.tokenization.tokenizer_file import TokenizerOptions
from tests.tools.tokenizer_samples import encode_with

NO_FILES: dict[str, bytes] = {}

# For these roles it has <pad>, <unk> and </s>.
_OTHERWISE = {"[PAD]", "[UNK]", "<|endoftext|>"}


def test_the_ids_are_those_of_byt5_whatever_the_text_holds() -> None:
    file = read_tokenizer("bytes", NO_FILES.get)
    texts = [*HARD_TEXTS, "</s> [MASK] <extra_id_0>", "x" * 2000]
    expected = [[3 + byte for byte in text.encode()] for text in texts]
    assert encode_with(file)(texts) == expected
    tokenizer = SentenceTokenizer(file.json, file.token_dtype)
    assert tokenizer.memoizes
    assert [tokenizer.library.decode(ids) for ids in expected] == texts
    assert tokenizer.count_unknown(np.arange(file.vocab_size)) == 0
    special = file.special
    assert (special.pad_id, special.eos_id, special.unk_id, file.vocab_size) == (0, 1, 2, 398)


def test_it_has_the_special_tokens_of_each_objective() -> None:
    file = read_tokenizer("bytes", NO_FILES.get)
    for name in OBJECTIVES.names:
        options = OBJECTIVES[name]
        suited = {*options.suited_tokenizer.special_tokens} - _OTHERWISE
        known = file.with_roles({token: (token,) for token in suited})
        assert {*dict(known.special.roles)} == suited, name
        assert None not in {known.special.cls_id, known.special.sep_id, known.special.mask_id}


def test_options_of_files_are_refused_and_a_file_of_its_name_has_a_path() -> None:
    with pytest.raises(UserError, match="is a tokenizer of bytes"):
        read_tokenizer("bytes", NO_FILES.get, TokenizerOptions(lowercase=True))
    with pytest.raises(UserError, match="it is not JSON"):
        read_tokenizer("./bytes", {"./bytes": b"no tokenizer"}.get)

"""What ERNIE's trainer reads beside the shards: lists of them, and the vocabulary.

Source: reader/pretraining.py of PaddlePaddle/ERNIE. A line of a list is a file's name, a tab, and
the probability that words are masked in it, and not characters; names are relative to the folder
that the trainer is started in, which is the data set's. A line of the vocabulary is a token, a tab
and its id.
"""

import json
from collections.abc import Mapping
from typing import Any

# With these names the original's scripts look for them.
TRAIN_LIST, VALID_LIST, VOCABULARY = "train_filelist", "valid_filelist", "vocab.txt"


def list_train_files(manifest: Mapping[str, Any], _tokenizer_json: str) -> bytes | None:
    """The list of the train split's shards: "train-00000-of-00002.gz", a tab, "1.0"."""
    return _list_files(manifest, "train")


def list_validation_files(manifest: Mapping[str, Any], _tokenizer_json: str) -> bytes | None:
    """The list of the validation split's shards; None where there is no such split."""
    return _list_files(manifest, "validation")


def _list_files(manifest: Mapping[str, Any], split: str) -> bytes | None:
    if split not in manifest["splits"]:
        return None
    # A data set of another objective with these columns has them for the sake of words.
    share = manifest["objective"]["options"].get("mask_word_prob", 1.0)
    names = (shard["file"] for shard in manifest["splits"][split]["shards"])
    return "".join(f"{name}\t{share}\n" for name in names).encode()


def list_vocabulary(_manifest: Mapping[str, Any], tokenizer_json: str) -> bytes | None:
    """The tokens of a WordPiece tokenizer by their ids; None for any other one.

    The trainer takes [PAD], [CLS], [SEP] and [MASK] from it by these names.
    """
    settings = json.loads(tokenizer_json)
    if settings["model"].get("type") != "WordPiece":
        return None
    ids = {
        **settings["model"]["vocab"],
        **{of["content"]: of["id"] for of in settings.get("added_tokens", [])},
    }
    by_id = sorted(ids.items(), key=lambda item: item[1])
    return "".join(f"{token}\t{number}\n" for token, number in by_id).encode()

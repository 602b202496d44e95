"""Manifests of earlier format versions as today's has them.

Version 2 had names of columns and no roles. Until version 3, shards had one encoding, which is the
first one today.
"""

from collections.abc import Mapping
from typing import Any

_CLASS = {"role": "class", "largest": 1, "feature": "next_sentence_labels"}

# Every column that version 2 could have.
_ROLES: dict[str, dict[str, Any]] = {
    "input_ids": {"role": "token_ids"},
    "token_type_ids": {"role": "segments", "largest": 1, "feature": "segment_ids"},
    "seg_labels": {"role": "words", "smallest": -1, "largest": 1},
    "masked_lm_positions": {"role": "positions"},
    "masked_lm_ids": {"role": "predicted_ids"},
    "cu_seqlens": {"role": "boundaries"},
    "next_sentence_label": {
        **_CLASS,
        "value_names": ["next", "random"],
        "title": "second segment",
    },
    "sentence_order_label": {
        **_CLASS,
        "value_names": ["in order", "switched"],
        "title": "segments",
    },
}

READABLE = (2, 3)


def upgrade(entries: Mapping[str, Any]) -> dict[str, Any]:
    """The entries of a manifest of an earlier version as today's has them."""
    output = entries["output"]
    options = {**output["options"], "shard_version": 1}
    entries = {**entries, "output": {**output, "options": options}}
    if entries["format_version"] > 2:
        return entries
    columns = [{**column, **_ROLES.get(column["name"], {})} for column in entries["columns"]]
    return {**entries, "columns": columns}

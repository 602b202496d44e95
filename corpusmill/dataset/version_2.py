"""Manifests of format version 2, whose columns had names and no roles, as version 3 has them."""

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


def upgrade(entries: dict[str, Any]) -> dict[str, Any]:
    """The entries of a manifest of version 2 as version 3 has them."""
    columns = [{**column, **_ROLES.get(column["name"], {})} for column in entries["columns"]]
    return {**entries, "columns": columns}

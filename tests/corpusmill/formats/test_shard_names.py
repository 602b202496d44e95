import re
from typing import Literal

import pytest

from corpusmill.errors import UserError
from corpusmill.formats.output_options import OutputOptions, check_parts
from corpusmill.formats.shard_formats import resolve
from tests.tools.shard_samples import BERT

ELECTRA = "pretrain_data.tfrecord-{shard}-of-{shards}"

# By a pattern that does not name shards, what is wrong with it.
FAULTS = {
    "data": "all shards would have the same name",
    "": "all shards would have the same name",
    "data-{shards}": "all shards would have the same name",
    "data-{shard": "expected '}'",
    "data-{number}": "{number} is not one of {split}, {shard}, {shards}",
    "data-{}": "{} is not one of {split}, {shard}, {shards}",
    "data-{shard!r}": "{shard} has an unsupported format",
    "data-{shard:>5}": "{shard} has an unsupported format",
    "data-{shard:x}": "{shard} has an unsupported format",
    "data-{shard.real}": "{shard.real} is not one of {split}, {shard}, {shards}",
    "{split:9}-{shard}": "{split} has an unsupported format",
    "more/{shard}": "'more/' has a character",
    "{shard} a": "' a' has a character",
    "{shard}*": "'*' has a character",
    "{{{shard}}}": "'{' has a character",
    ".{shard}": "names begin with . are hidden",
    "_temporary-{shard}": "names begin with _ are hidden",
}


def test_patterns_that_do_not_name_shards_are_refused() -> None:
    causes = {}
    for pattern in FAULTS:
        with pytest.raises(UserError, match=re.escape(f"--shard-name {pattern}: ")) as caught:
            OutputOptions(shard_name=pattern)
        causes[pattern] = caught.value.cause
    assert {
        pattern: cause for pattern, cause in causes.items() if FAULTS[pattern] not in cause
    } == {}
    for pattern in (ELECTRA, "{split}.{shard:03d}.parquet", "a={shard:02}+b", "{shard:d}_{split}"):
        OutputOptions(shard_name=pattern)


def test_two_parts_need_different_names() -> None:
    check_parts(None, validation=True, sources=True)
    check_parts(ELECTRA, validation=False, sources=False)
    check_parts("{split}-{shard}", validation=True, sources=True)
    with pytest.raises(UserError, match="train and validation would have the same names"):
        check_parts(ELECTRA, validation=True, sources=False)
    with pytest.raises(UserError, match="all sources would have the same names"):
        check_parts(ELECTRA, validation=False, sources=True)


def test_only_tfrecord_allows_names_without_its_suffix() -> None:
    assert resolve(OutputOptions("tfrecord", shard_name=ELECTRA), BERT).shard_name == ELECTRA
    name: Literal["parquet", "avro"]
    for name in ("parquet", "avro"):
        with pytest.raises(UserError, match=rf"readers of {name} expect .* with \.{name}"):
            resolve(OutputOptions(name, shard_name=ELECTRA), BERT)
        resolve(OutputOptions(name, shard_name="{shard}." + name), BERT)

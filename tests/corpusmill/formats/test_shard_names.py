import re
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpusmill.errors import UserError
from corpusmill.formats.output_options import OutputOptions
from corpusmill.formats.shard_formats import resolve
from corpusmill.formats.shard_names import DEFAULT, check_parts, fill, matcher_of
from tests.tools.shard_samples import BERT

ELECTRA = "pretrain_data.tfrecord-{shard}-of-{shards}"
PATTERNS = [DEFAULT, ELECTRA, "{split}.{shard:03d}.parquet", "a={shard:02}+b", "{shard:d}_{split}"]


def test_names() -> None:
    assert fill(DEFAULT, "train", 3, 8) == "train-00003-of-00008"
    assert fill(ELECTRA, "train", 0, 1000) == "pretrain_data.tfrecord-0-of-1000"


@given(
    st.sampled_from(PATTERNS),
    st.sampled_from(["train", "validation"]),
    st.integers(0, 99998),
    st.integers(1, 99999),
)
def test_every_name_is_matched(pattern: str, split: str, shard: int, shards: int) -> None:
    name = fill(pattern, split, shard, shards)
    assert matcher_of(pattern).fullmatch(name)


@pytest.mark.parametrize(
    "name",
    [
        "pretrain_data.tfrecord-0-of-", "pretrain_dataXtfrecord-0-of-1",
        "pretrain_data.tfrecord-0-of-1.bak", "x/pretrain_data.tfrecord-0-of-1",
    ],
)  # fmt: skip
def test_other_names_are_not_matched(name: str) -> None:
    assert not matcher_of(ELECTRA).fullmatch(name)


@pytest.mark.parametrize(
    ("pattern", "cause"),
    [
        ("data", "all shards would have the same name"),
        ("", "all shards would have the same name"),
        ("data-{shards}", "all shards would have the same name"),
        ("data-{shard", "expected '}'"),
        ("data-{number}", "{number} is not one of {split}, {shard}, {shards}"),
        ("data-{}", "{} is not one of {split}, {shard}, {shards}"),
        ("data-{shard!r}", "{shard} has an unsupported format"),
        ("data-{shard:>5}", "{shard} has an unsupported format"),
        ("data-{shard:x}", "{shard} has an unsupported format"),
        ("data-{shard.real}", "{shard.real} is not one of {split}, {shard}, {shards}"),
        ("{split:9}-{shard}", "{split} has an unsupported format"),
        ("more/{shard}", "'more/' has a character"),
        ("{shard} a", "' a' has a character"),
        ("{shard}*", "'*' has a character"),
        ("{{{shard}}}", "'{' has a character"),
        (".{shard}", "names begin with . are hidden"),
        ("_temporary-{shard}", "names begin with _ are hidden"),
    ],
)
def test_patterns_that_do_not_name_shards_are_refused(pattern: str, cause: str) -> None:
    with pytest.raises(UserError, match=re.escape(cause)) as caught:
        OutputOptions(shard_name=pattern)
    assert caught.value.value == f"--shard-name {pattern}"


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

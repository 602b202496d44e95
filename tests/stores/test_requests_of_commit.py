"""A commit takes as many requests for ten thousand shards as for two."""

from dataclasses import replace

from corpusmill.dataset.manifest import Split
from corpusmill.dataset.manifest_json import encode
from tests.tools.manifests import small_manifest, small_shard
from tests.tools.object_stores import Bucket
from transforms.commit.pointer import Committed, commit
from transforms.recovery import Run, Workplace, begin_run
from transforms.storage.files import locate


def count_requests(bucket: Bucket, shards: int) -> int:
    """Commit a data set of so many shards, and return how many requests that takes."""
    output = locate(f"{bucket.url}/{shards}")
    place = Workplace(f"{output.url}/v1/_temporary-{'0' * 32}", output.url, 1, "token")
    assert begin_run(place.folder, Run("token", place.temp_folder))
    entries = [small_shard(f"v1/train-{n:05d}-of-{shards:05d}.parquet") for n in range(shards)]
    split = Split.from_shards(entries, {"length": {1: shards}})
    manifest = replace(small_manifest(), splits={"train": split})
    copies = {"README.md": b"a card", "tokenizer.json": b"{}"}
    bucket.proxy.clear()
    commit(place, Committed(encode(manifest), copies))
    return len(bucket.proxy.requests)


def test_a_commit_takes_a_bounded_number_of_requests(bucket: Bucket) -> None:
    few = count_requests(bucket, 2)
    assert count_requests(bucket, 10_000) == few < 40

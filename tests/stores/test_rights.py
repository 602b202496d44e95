"""Credentials that may write, and not delete."""

from tests.stores.conftest import Corpus
from tests.tools.jobs import run_here
from tests.tools.object_stores import Bucket, Request
from tests.tools.stored_objects import read_objects


def refuse_deletions(request: Request) -> str | None:
    is_deletion = request.method == "DELETE" or "batch" in request.path
    return "403" if is_deletion or "delete" in request.query.split("&") else None


def test_a_data_set_is_complete_where_nothing_may_be_deleted(
    bucket: Bucket, corpus: Corpus
) -> None:
    bucket.proxy.fault = refuse_deletions
    run_here(*corpus.build(bucket))
    options = ("--", *bucket.beam_arguments)
    run_here("verify", f"{bucket.url}/out", *options)
    run_here(*corpus.build(bucket, "--resume"))
    bucket.proxy.clear()
    run_here(*corpus.build(bucket, "--replace"))
    assert not [name for name in read_objects(bucket) if "_temporary-" in name]
    run_here("verify", f"{bucket.url}/out", *options)

"""Objects written to and read from emulators of both stores, with faults."""

import io
from collections.abc import Callable
from itertools import count

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from apache_beam.options.pipeline_options import PipelineOptions

from corpusmill.errors import UserError
from tests.tools.exchanges import race
from tests.tools.object_stores import Bucket, Request, on_kth
from transforms.storage import google_cloud, objects
from transforms.storage.amazon_s3 import AmazonS3Store
from transforms.storage.files import (
    create_file,
    create_once,
    find_files,
    locate,
    open_file,
    read_file,
    write_file,
)

NAMES = ("plain", "a folder/with spaces", "100%25 sure %2F", "été/日本語", "a+b=c&d#e", "[x]*?.txt")


def write_large(path: str, parts: list[bytes]) -> None:
    with create_file(path) as stream:
        for part in parts:
            stream.write(part)


def is_upload(request: Request) -> bool:
    return request.method in {"PUT", "POST"} and request.bytes > 2**19


def is_download(request: Request) -> bool:
    return request.method == "GET" and bool(request.range)


def is_end_of_upload(request: Request) -> bool:
    return request.method == "POST" and "uploadId" in request.query


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a file of some megabytes a large one."""
    monkeypatch.setattr(objects, "_PART_BYTES", 5 * 2**20)  # S3 takes no smaller ones


def test_any_name_is_written_listed_and_read(bucket: Bucket) -> None:
    for number, name in enumerate(NAMES):
        path = f"{bucket.url}/{number}/{name}"
        write_file(path, b"some text")
        assert [(file.path, file.bytes) for file in find_files(path)] == [(path, 9)]
        assert locate(f"{bucket.url}/{number}").list() == {name: 9}
        assert read_file(path) == b"some text"


def test_a_small_file_costs_one_request(bucket: Bucket) -> None:
    for blocks in ([], [b"x"] * 100):
        bucket.proxy.clear()
        write_large(f"{bucket.url}/small", blocks)
        assert len(bucket.proxy.requests) == 1
        assert read_file(f"{bucket.url}/small") == b"".join(blocks)


def test_reading_seeks_and_takes_no_byte_too_many(bucket: Bucket) -> None:
    content = bytes(range(256)) * 40_000
    write_file(f"{bucket.url}/large", content)
    bucket.proxy.clear()
    with open_file(f"{bucket.url}/large") as stream:
        assert stream.seek(-10, io.SEEK_END) == len(content) - 10
        assert stream.read() == content[-10:]
        stream.seek(5_000_000)
        assert stream.read(100) == content[5_000_000:5_000_100]
        assert stream.read(100) == content[5_000_100:5_000_200]
        assert stream.seek(0) == 0
        assert stream.read() == content
    # The size, the end, a block, and two for the whole.
    assert len(bucket.proxy.requests) <= 5


def test_parquet_is_read_by_its_footer(bucket: Bucket) -> None:
    table = pa.table({"text": [f"row {number}" for number in range(1000)]})
    with create_file(f"{bucket.url}/t.parquet") as stream:
        pq.write_table(table, stream, row_group_size=100)
    with open_file(f"{bucket.url}/t.parquet") as stream:
        assert pq.ParquetFile(stream).read_row_group(7).equals(table.slice(700, 100))


@pytest.mark.usefixtures("small_parts")
def test_an_upload_or_a_read_that_fails_in_the_middle_is_tried_again(bucket: Bucket) -> None:
    path, parts = f"{bucket.url}/large", [bytes([number]) * 3_000_000 for number in range(5)]
    write_large(path, parts)
    assert read_file(path) == b"".join(parts)
    uploads = [(1, fault, is_upload) for fault in ("503", "lost", "refused")]
    # Of the end of an upload, too, the answer may be lost.
    for fault in (*uploads, (0, "lost", is_end_of_upload)):
        bucket.proxy.fault = on_kth(*fault)
        write_large(path, parts)
        assert read_file(path) == b"".join(parts), fault
    for name in ("503", "cut", "refused"):
        bucket.proxy.fault = on_kth(1, name, is_download)
        with open_file(path) as stream:
            assert stream.read(6_000_000) + stream.read() == b"".join(parts), name


@pytest.mark.usefixtures("small_parts")
def test_a_writer_that_fails_leaves_nothing(bucket: Bucket) -> None:
    write_file(f"{bucket.url}/x", b"old")

    def write(bytes_before: int) -> None:
        with create_file(f"{bucket.url}/x") as stream:
            stream.write(b"x" * bytes_before)
            raise ZeroDivisionError

    for bytes_before in (10, 12_000_000):
        with pytest.raises(ZeroDivisionError):
            write(bytes_before)
        assert locate(f"{bucket.url}/").list() == {"x": 3}


def write_x(path: str) -> None:
    write_file(path, b"x")


def test_what_is_not_there_or_refused_is_named(bucket: Bucket) -> None:
    with pytest.raises(FileNotFoundError):
        open_file(f"{bucket.url}/nothing")
    assert find_files(f"{bucket.url}/nothing") == []
    for use in (find_files, write_x):
        with pytest.raises(UserError, match=r"there is no bucket .*Check its name, or create it"):
            use(f"{bucket.url}-not-there/x/")
    write_x(f"{bucket.url}/x")
    bucket.proxy.fault = lambda request: (
        "403" if request.method == "DELETE" or "batch" in request.path or "delete" in request.query
        else None
    )  # fmt: skip
    with pytest.raises(UserError, match="access is denied"):
        locate(bucket.url).delete(["x"])
    bucket.proxy.fault = lambda _: "403"
    for refused in (find_files, open_file, write_x):
        with pytest.raises(UserError, match="access is denied"):
            refused(f"{bucket.url}/x")


def test_a_claim_is_asked_for_again_after_a_temporary_fault(bucket: Bucket) -> None:
    """A conflict says that two wrote at once, and not who has won."""
    for status in ("409", "429", "500", "503"):
        bucket.proxy.fault = on_kth(0, status, lambda request: request.changes)
        file = locate(f"{bucket.url}/{status}")
        file.write(b"mine", new=True)
        assert file.read() == b"mine"
        with pytest.raises(FileExistsError):
            file.write(b"another's", new=True)


def test_one_of_those_that_exchange_the_same_content_wins_each_time(bucket: Bucket) -> None:
    place = locate(f"{bucket.url}/x")
    held = race(place, 3, 25)
    assert place.exchange(held or b"", b"anything")
    assert not place.exchange(b"new", None)


def test_an_exchange_whose_answer_is_lost_has_taken_place(bucket: Bucket) -> None:
    for fault in ("lost", "503", "409"):
        place = locate(f"{bucket.url}/{fault}")
        for old, new in ((None, b"first"), (b"first", b"second")):
            bucket.proxy.fault = on_kth(0, fault, lambda request: request.changes)
            assert place.exchange(new, old)
            assert place.read() == new
        assert place.exchange(b"first", b"second")


def test_an_exchange_with_somebody_in_between_leaves_what_that_one_wrote(
    bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, (store, _) = locate(f"{bucket.url}/x"), objects.find_object(bucket.url)
    read = store.read_tagged
    for old in (b"old", None):
        for new in (b"another's", None):
            locate(bucket.url).delete(["x"])
            if old:
                place.write(old)

            def read_first(name: str, new: bytes | None = new) -> tuple[bytes | None, str]:
                result = read(name)
                monkeypatch.setattr(store, "read_tagged", read)
                if new:
                    place.write(new)
                else:
                    locate(bucket.url).delete(["x"])
                return result

            monkeypatch.setattr(store, "read_tagged", read_first)
            # Where nothing was and nothing is, nobody was in between.
            assert place.exchange(b"mine", old) == (old is None and new is None)
            assert place.read_any() == (new if old or new else b"mine")


@pytest.mark.usefixtures("small_parts")
def test_an_object_that_is_written_once_is_never_replaced(bucket: Bucket) -> None:
    """A retry that made the same bytes is told that all is well."""
    path = f"{bucket.url}/once"

    def write(parts: list[bytes], meanwhile: Callable[[], object] = lambda: None) -> None:
        with create_once(path, f"{bucket.url}/scratch") as stream:
            for part in parts:
                stream.write(part)
            meanwhile()

    # One request, or an upload.
    for blocks, ends in ((1, lambda request: request.changes), (5, is_end_of_upload)):
        parts = [bytes([number]) * 3_000_000 for number in range(blocks)]
        bucket.proxy.fault = on_kth(0, "lost", ends)
        write(parts)
        write(parts)
        with pytest.raises(RuntimeError, match="once exists, and holds other bytes"):
            write([*parts[:-1], b"x" * 3_000_000])
        assert read_file(path) == b"".join(parts)
        # Somebody else writes it while our upload is under way.
        locate(bucket.url).delete(["once"])
        with pytest.raises(RuntimeError, match="holds other bytes"):
            write(parts, lambda: write_file(path, b"another's"))
        assert read_file(path) == b"another's"
        assert locate(bucket.url).list() == {"once": 9}
        locate(bucket.url).delete(["once"])


@pytest.mark.parametrize("bucket", ["s3"], indirect=True)
def test_a_store_that_knows_no_conditions_is_written_all_the_same(bucket: Bucket) -> None:
    numbers = count()
    bucket.proxy.fault = lambda request: (
        "400 NotImplemented" if request.method == "PUT" and not next(numbers) % 2 else None
    )
    assert locate(f"{bucket.url}/x").exchange(b"first", None)
    assert locate(f"{bucket.url}/x").exchange(b"second", b"first")
    assert read_file(f"{bucket.url}/x") == b"second"


@pytest.mark.parametrize("bucket", ["s3"], indirect=True)
def test_a_refusal_has_its_cause(bucket: Bucket) -> None:
    for answer, cause in {
        "400 ExpiredToken": "the credentials have expired",
        "403 SignatureDoesNotMatch": "does not accept the credentials",
        "403 RequestTimeTooSkewed": "this machine's clock",
        "400 AuthorizationHeaderMalformed": "another region",
    }.items():
        bucket.proxy.fault = lambda _, answer=answer: answer  # type: ignore[misc]
        with pytest.raises(UserError, match=cause):
            write_x(f"{bucket.url}/x")


def test_half_of_the_credentials_and_half_an_endpoint_are_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY", raising=False)
    with pytest.raises(UserError, match="half of the credentials is missing"):
        AmazonS3Store("bucket", PipelineOptions([]))
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    with pytest.raises(UserError, match="with its scheme"):
        AmazonS3Store("bucket", PipelineOptions(["--s3_endpoint_url=localhost:9000"]))


def test_without_credentials_the_error_says_how_to_give_them(
    bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    client, _ = google_cloud._make_client(PipelineOptions([]))
    monkeypatch.setattr(google_cloud, "_make_client", lambda _: (client, False))
    bucket.proxy.fault = lambda _: "403"
    with pytest.raises(UserError, match="no credentials were found") as caught:
        open_file(f"{bucket.url}/x")
    assert {"gs": "gcloud auth", "s3": "aws configure"}[bucket.scheme] in str(caught.value)


def test_a_path_without_a_bucket_and_a_store_whose_package_is_missing_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(UserError, match="it names no bucket"):
        open_file("gs://")
    monkeypatch.setattr(objects, "find_spec", lambda _: None)
    for scheme, extra in (("gs", "gcp"), ("s3", "aws")):
        with pytest.raises(UserError, match=rf"pip install 'apache-beam\[{extra}\]'"):
            open_file(f"{scheme}://some-bucket-of-nobody/x")

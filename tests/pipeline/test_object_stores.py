"""The whole job with everything in a bucket, on emulators of Google Cloud Storage and of S3."""

import bz2
import gzip
import hashlib
import json
import lzma
import os
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import lz4.frame
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard

import transforms.commit.commit
import transforms.shuffle.trees
from pipeline.folders.standing import UnfinishedRun
from pipeline.recipe.inputs import list_inputs
from tests.tools.jobs import WORKERS, Outcome, build_apart, command_of, run_here, shards_of
from tests.tools.knobs import knobs
from tests.tools.object_stores import Bucket, Request
from tests.tools.table_rows import for_rows
from transforms.storage.files import StoredUrl, locate, open_file, write_file

RANGES = ("--range-bytes", "500")


@pytest.fixture(scope="module")
def reference(built: Path) -> dict[str, object]:
    """The description of the data set on this machine's disk."""
    return describe({name: (built / name).read_bytes() for name in locate(str(built)).list()})


@pytest.fixture
def filled(bucket: Bucket, sample: Path, tokenizer_path: Path) -> Bucket:
    write_file(f"{bucket.url}/in/wiki.sample.tokens", sample.read_bytes())
    write_file(f"{bucket.url}/tokenizer.json", tokenizer_path.read_bytes())
    bucket.proxy.clear()
    return bucket


def describe(contents: dict[str, bytes]) -> dict[str, object]:
    """Describe what all runs share: all but the tokenizer's path and the number of the version."""
    described = {
        re.sub(r"^v\d+/", "v1/", name): hashlib.sha256(content).hexdigest()
        for name, content in contents.items()
    }
    manifest = json.loads(re.sub(rb'"v\d+/', b'"v1/', contents["dataset.json"]))
    del manifest["tokenizer"]["name"], manifest["files"], manifest["sha256"], manifest["version"]
    cards = dict.fromkeys(("README.md", "v1/root/README.md"))
    return {**described, "dataset.json": manifest, **cards}


def describe_folder(folder: str) -> dict[str, object]:
    place = locate(folder)
    return describe({name: place.read(name) for name in place.list()})


def build(bucket: Bucket, *flags: str, **end: Any) -> Outcome:
    files = ([f"{bucket.url}/in"], f"{bucket.url}/tokenizer.json", f"{bucket.url}/out")
    return run_here(*command_of(*files, *flags, "--", *bucket.beam_arguments), **end)


def read_json(path: str) -> dict[str, object]:
    with open_file(path) as stream:
        content: dict[str, object] = json.loads(stream.read())
    return content


def test_the_job_in_a_bucket_gives_the_same_bytes_and_leaves_nothing_else(
    filled: Bucket, reference: dict[str, object]
) -> None:
    # So that larger files are read in parts.
    with knobs(small_file_bytes=100, most_fetched_bytes=100):
        build(filled, "--temp-location", f"{filled.url}/temp")
    assert describe_folder(f"{filled.url}/out") == reference
    assert len(locate(filled.url).list()) == len(reference) + 2
    options = ("--", *filled.beam_arguments)
    verified = run_here("verify", f"{filled.url}/out", *options)
    # Lines are broken where the bucket's name is long.
    assert "were written" in " ".join(verified.output.split()), verified.errors
    page = f"{filled.url}/report of it.html"
    run_here("inspect", f"{filled.url}/out", "--html", page, *options)
    with open_file(page) as stream:
        assert b'class="bar' in stream.read()
    build(filled, refused=(f"--output {filled.url}/out", "it holds a data set", "--replace"))


def test_what_takes_the_place_of_a_data_set_in_a_bucket_is_checked_there(
    filled: Bucket, reference: dict[str, object]
) -> None:
    build(filled, "--seed", "3")
    build(filled, "--replace", "--seed", "2")
    changed = describe_folder(f"{filled.url}/out")
    assert changed.keys() == reference.keys()
    assert changed != reference
    write_file(f"{filled.url}/out/v2/train-00001-of-00003.parquet", b"PAR1")
    options = ("--", *filled.beam_arguments)
    verified = run_here("verify", f"{filled.url}/out", *options, status=1)
    assert "train-00001-of-00003.parquet" in verified.output
    flags = ("--runner", "DirectRunner", *options)
    by_job = run_here("verify", f"{filled.url}/out", *flags, status=1)
    assert by_job.output == verified.output
    assert describe_folder(f"{filled.url}/out").keys() == reference.keys()


@pytest.mark.parametrize("bucket", ["gs"], indirect=True)
def test_many_tasks_remove_what_one_task_would(
    filled: Bucket, reference: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    prefixes = ("spill-", "done-")
    few = [f"/{prefix}" for prefix in prefixes]
    monkeypatch.setattr(
        transforms.commit.commit, "list_prefixes", lambda path: [path + x for x in few]
    )
    left: list[str] = []

    def watch(folder: StoredUrl, last: str) -> None:
        left.extend(name.rpartition("/")[2] for name in folder.list())
        remove(folder, last)

    remove = StoredUrl.remove
    # The command removes what the tasks have left.
    monkeypatch.setattr(StoredUrl, "remove", watch)
    few_files = ("--fan-in", "2", "--range-bytes", "20000")
    build(filled, "--seed", "2", *few_files)
    build(filled, "--replace", *few_files)
    assert describe_folder(f"{filled.url}/out") == reference
    assert len(locate(filled.url).list()) == len(reference) + 2
    assert left
    assert not [name for name in left if name.startswith(prefixes)]


@pytest.mark.parametrize("bucket", ["s3"], indirect=True)
def test_worker_processes_reach_the_bucket(filled: Bucket, reference: dict[str, object]) -> None:
    files = ([f"{filled.url}/in/*.tokens"], f"{filled.url}/tokenizer.json", f"{filled.url}/out")
    workers = (*WORKERS, "--range-bytes", "20000")
    done = build_apart(*files, *workers, "--", *filled.beam_arguments)
    assert done.status == 0, done
    # The counts of ranges and batches are of the run; all examples are the same.
    assert shards_of(describe_folder(f"{filled.url}/out")) == shards_of(reference)


def test_faults_on_the_way_change_nothing(filled: Bucket, reference: dict[str, object]) -> None:
    """Every seventh request is answered with an error, lost or cut short."""
    faults = ["503", "refused", "cut", "lost"]

    def judge(request: Request) -> str | None:
        number = len(filled.proxy.requests)
        if number % 7:
            return None
        fault = faults[number // 7 % len(faults)]
        # A deletion or upload whose acknowledgment is lost is repeated, which does no harm.
        return fault if fault != "cut" or request.method == "GET" else "503"

    filled.proxy.fault = judge
    build(filled)
    filled.proxy.clear()
    assert describe_folder(f"{filled.url}/out") == reference


def test_a_run_that_fails_leaves_no_data_set_and_goes_on(
    filled: Bucket, reference: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    filled.proxy.fault = lambda request: (
        "403" if "train-" in request.path + request.name and request.changes else None
    )
    build(filled, refused=(filled.url, "access is denied", "Ask for permission", "--resume"))
    filled.proxy.clear()
    listed = locate(f"{filled.url}/out").list()
    assert "dataset.json" not in listed
    # The process of the run that failed is this one, which lives on.
    monkeypatch.setattr(UnfinishedRun, "is_alive", False)
    build(filled, "--resume")
    assert describe_folder(f"{filled.url}/out") == reference


@pytest.mark.parametrize("bucket", ["gs"], indirect=True)
def test_a_list_that_lags_changes_nothing(
    filled: Bucket, reference: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lists lack what was written since the run began, and hold what was deleted."""
    build(filled, "--seed", "3")
    old = [f"{filled.url}/{name}" for name in locate(filled.url).list()]

    def list_old(folder: StoredUrl) -> dict[str, int]:
        begin = f"{folder.url}/"
        return {path.removeprefix(begin): 1 for path in old if path.startswith(begin)}

    with monkeypatch.context() as patch:
        patch.setattr(StoredUrl, "list", list_old)
        build(filled, "--replace")
    assert describe_folder(f"{filled.url}/out") == reference


@pytest.mark.parametrize("bucket", ["gs"], indirect=True)
def test_formats_that_seek_and_compressed_ones(filled: Bucket) -> None:
    texts = [f"Row {number} says something.\nAnd more of it." for number in range(60)]
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"text": texts}), sink, row_group_size=7)
    write_file(f"{filled.url}/p/a 50%.parquet", sink.getvalue().to_pybytes())
    with pa.ipc.new_file(sink := pa.BufferOutputStream(), pa.schema({"text": pa.string()})) as file:
        for batch in pa.table({"text": texts}).to_batches(7):
            file.write(batch)
    write_file(f"{filled.url}/a/été.arrow", sink.getvalue().to_pybytes())
    lines = "".join(json.dumps({"text": text}) + "\n" for text in texts)
    write_file(f"{filled.url}/j/x y.jsonl.gz", gzip.compress(lines.encode()))
    rows = set()
    for pattern, flags in (("p/", RANGES), ("a", RANGES), ("j/*.gz", ())):
        output = f"{filled.url}/out-{pattern[0]}"
        run_here(
            "gpt", "--input", f"{filled.url}/{pattern}", "--output", output, "--num-shards", "1",
            "--tokenizer", f"{filled.url}/tokenizer.json", "--end-of-text", "False", *flags,
            "--", *filled.beam_arguments,
        )  # fmt: skip
        manifest = read_json(f"{output}/dataset.json")
        rows.add(manifest["splits"]["train"]["rows"])  # type: ignore[index]
    assert rows == {60}


def test_the_other_commands_read_and_write_there(filled: Bucket, tmp_path: Path) -> None:
    options = ("--", *filled.beam_arguments)
    run_here(
        "train-tokenizer", "--input", f"{filled.url}/in", "--vocab-size", "300", "--output",
        f"{filled.url}/trained/tokenizer.json", "--save-model", f"{filled.url}/trained/", *options,
    )  # fmt: skip
    assert locate(f"{filled.url}/trained").list().keys() == {"tokenizer.json", "vocab.txt"}
    numbers = f"{filled.url}/numbers.json"
    run_here(
        "inspect-corpus", "--input", f"{filled.url}/in/", "--tokenizer", f"{filled.url}/trained",
        "--json", numbers, *options,
    )  # fmt: skip
    assert read_json(numbers)["format"] == "corpusmill-corpus"
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("bucket", ["s3"], indirect=True)
def test_requests_do_not_grow_with_what_they_must_not(filled: Bucket) -> None:
    """One more input file takes requests of its own, but none of the driver."""
    build(filled)
    first = len(filled.proxy.requests)
    with open_file(f"{filled.url}/in/wiki.sample.tokens") as stream:
        content = stream.read()
    for number in range(10):
        write_file(f"{filled.url}/in/more-{number}", content[:3000])
    filled.proxy.clear()
    build(filled, "--replace")
    input_requests = [request for request in filled.proxy.requests if "/in/" in request.path]
    assert len(input_requests) <= 10 * 4 + 10
    # The second build replaces a data set, in which each shard has two files of provenance.
    assert len(filled.proxy.requests) - first <= 10 * 4 + 60


def test_many_small_objects_take_one_request_each(filled: Bucket) -> None:
    """Their sizes are those of the listing."""
    for number in range(50):
        write_file(f"{filled.url}/in/small-{number:02}", b"A sentence of a small object.\n" * 9)
    filled.proxy.clear()
    build(filled)
    requests = [request for request in filled.proxy.requests if "small-" in request.path]
    # All are looked at before the run, and some are read to try the tokenizer.
    assert len(requests) <= 50 + 50 + 20
    assert not [request for request in requests if request.method == "HEAD"]


@pytest.mark.parametrize("bucket", ["s3"], indirect=True)
def test_text_is_added_and_documents_are_removed_as_on_a_disk(
    bucket: Bucket, halves: tuple[Path, Path], tokenizer_path: Path, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """In the bucket many tasks take few files each."""
    # A job of many tasks would send a thousand requests to remove its temporary files.
    monkeypatch.setattr(transforms.commit.commit, "list_prefixes", lambda _: iter(()))
    described, beam_flags = [], ("--", *bucket.beam_arguments)
    for root, flags in ((str(tmp_path), ()), (bucket.url, ("--fan-in", "2"))):
        output, names = f"{root}/out", ("first/text", "second/text", "tokenizer.json")
        texts = [f"{root}/in/{name}" for name in names]
        for path, file in zip(texts, (*halves, tokenizer_path), strict=True):
            write_file(path, file.read_bytes())
        run_here(*command_of(texts[:1], texts[2], output), *beam_flags)
        run_here(*command_of(texts[1:2], texts[2], output, "--append", *flags), *beam_flags)
        run_here("drop", output, "--where", "document % 3 = 0", *flags, *beam_flags)
        assert "were written" in " ".join(run_here("verify", output, *beam_flags).output.split())
        described.append(describe_folder(output))
    assert described[0] == described[1]


def test_little_of_an_object_is_fetched_to_look_at_it(filled: Bucket) -> None:
    for number, size in enumerate((10, 2**18, 2**18 + 1)):
        write_file(
            f"{filled.url}/looked/{number}.txt", b"A line of\n" * (size // 10) + b"a" * (size % 10)
        )
    filled.proxy.clear()
    files = list_inputs([f"{filled.url}/looked"], "/nowhere")
    assert all(file.content.is_known for file in files)
    ranges = sorted(r.range for r in filled.proxy.requests if r.path.endswith(".txt"))
    assert ranges == ["bytes=0-262143", "bytes=0-262143", "bytes=0-9"]


def test_more_of_an_object_is_fetched_where_only_the_end_of_a_long_line_tells_what_it_is(
    filled: Bucket,
) -> None:
    line = b'{"text": "' + b"long " * 2**17 + b'"}\n'
    write_file(f"{filled.url}/looked/long.jsonl", 2 * line)
    [file] = list_inputs([f"{filled.url}/looked/long.jsonl"], "/nowhere")
    assert file.content.format == "json-lines"


@for_rows(
    "compress",
    [
        gzip.compress, bz2.compress, lzma.compress, zstandard.compress,
        partial(lz4.frame.compress, block_size=lz4.frame.BLOCKSIZE_MAX4MB),
    ],
)  # fmt: skip
def test_a_compressed_object_is_looked_at_however_large_its_blocks_are(
    filled: Bucket, compress: Callable[[bytes], bytes]
) -> None:
    records = [{"text": os.urandom(2**10).hex()} for _ in range(2**9)]
    data = json.dumps(records).encode()
    url = f"{filled.url}/looked/large"
    write_file(url, compress(data))
    [file] = list_inputs([url], "/nowhere")
    assert file.content.format == "json"


def test_a_bucket_that_is_not_there_or_refuses_is_named_before_any_work(
    filled: Bucket, sample: Path, tokenizer_path: Path
) -> None:
    nobody = f"{filled.scheme}://bucket-of-nobody"
    for flag, place in (
        ("--input", f"{nobody}/in/"), ("--output", f"{nobody}/x"), ("--temp-location", nobody),
    ):  # fmt: skip
        command = command_of([sample], tokenizer_path, f"{filled.url}/x", flag, place)
        parts = (f"{flag} {place}", "there is no bucket bucket-of-nobody", "Check its name")
        run_here(*command, "--", *filled.beam_arguments, refused=parts)
    filled.proxy.fault = lambda request: "403" if request.method in {"PUT", "POST"} else None
    build(filled, refused=(f"--output {filled.url}/out", "access is denied", "permission"))

"""Jobs for Dataflow: Beam's translation, and what is refused before it."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from uuid import uuid4

import pytest
from apache_beam.io.filesystems import FileSystems
from apache_beam.portability.api import beam_runner_api_pb2

from corpusmill.dataset.shards import read_manifest
from corpusmill.provenance.store import OriginStore
from deploy.dataflow import launch
from pipeline.job_options import RunOptions
from pipeline.runners.dataflow import DataflowEngine
from tests.tools.jobs import Outcome, last_wins, run_here
from tests.tools.loopback_cloud import (
    BUCKET,
    SERVICE,
    TOKENIZER,
    keep_translations,
    listing,
    serve_storage,
)
from transforms.storage.files import locate

DRY_RUN = "--dry_run=True"


@pytest.fixture(scope="module", autouse=True)
def storage() -> Iterator[None]:
    """A bucket of Google's on the loopback."""
    with serve_storage():
        yield


def submit(
    *beam_arguments: str, flags: tuple[str, ...] = (), refused: Sequence[str] = ()
) -> Outcome:
    """The command line as a user gives it, but for what keeps Beam from looking for Google."""
    own = last_wins(
        "--input", f"{BUCKET}/in/*", "--tokenizer", TOKENIZER,
        "--output", f"{BUCKET}/out-{uuid4().hex}", "--num-shards", "3",
        "--validation-share", "0.1", "--runner", "DataflowRunner", *flags,
    )  # fmt: skip
    return run_here("bert", *own, "--", *beam_arguments, refused=refused)


def test_workers_get_the_image_and_nothing_else() -> None:
    with keep_translations() as kept:
        submit(*SERVICE, DRY_RUN)
    [proto] = kept
    [environment] = proto.components.environments.values()
    image = beam_runner_api_pb2.DockerPayload.FromString(environment.payload)
    assert image.container_image == "registry/corpusmill:1"
    assert not environment.dependencies  # neither a pickled main module nor Beam itself


def test_the_options_that_we_set_are_said_and_the_users_win() -> None:
    printed = submit(*SERVICE, DRY_RUN).output
    assert "--no_save_main_session" in printed
    assert "--job_name=corpusmill-" in printed  # which the alerts of deploy/dataflow look for
    assert "--machine_type=n2-standard-4" in printed
    assert "DataflowRunner: --num_workers=1 --max_num_workers=1\n" in printed
    theirs = ("--machine_type=n2-highmem-8", "--job_name=mine", "--num_workers=2")
    printed = submit(*SERVICE, DRY_RUN, *theirs).output
    assert "--machine_type" not in printed
    assert "--job_name" not in printed
    assert "DataflowRunner: --max_num_workers=2\n" in printed


def without(flag: str) -> tuple[str, ...]:
    return tuple(entry for entry in SERVICE if not entry.startswith(flag))


@pytest.mark.parametrize("flag", ["--project", "--region", "--temp_location", "--sdk_container"])
def test_what_the_service_needs_is_asked_for(flag: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CLOUDSDK_COMPUTE_REGION", raising=False)
    submit(*without(flag), DRY_RUN, refused=(flag, "after --"))


def test_files_of_this_machine_are_refused(tmp_path: Path, sample: Path) -> None:
    for flag, value in (
        ("--input", str(sample)), ("--output", str(tmp_path)), ("--temp-location", str(tmp_path)),
    ):  # fmt: skip
        parts = (flag, value, "gs://bucket/folder")
        submit(*SERVICE, DRY_RUN, flags=(flag, value), refused=parts)
    staging, wikitext = f"--staging_location={tmp_path}", ("--input", "wikitext-2")
    refused = ("--staging_location", "gs://BUCKET/FOLDER")
    submit(*SERVICE, DRY_RUN, staging, refused=refused)
    refused = ("--input wikitext-2", "hf://datasets/")
    submit(*SERVICE, DRY_RUN, flags=wikitext, refused=refused)


@pytest.mark.parametrize(
    ("arguments", "processors"),
    [
        (("--max_num_workers=3",), 12),
        (("--max_num_workers=3", "--machine_type=n2-highmem-16"), 48),
        (("--max_num_workers=3", "--worker_machine_type=e2-custom"), 3),
        ((), None),
    ],
)
def test_parallelism_is_that_of_the_machines(
    arguments: tuple[str, ...], processors: int | None
) -> None:
    assert DataflowEngine(RunOptions(), arguments).parallelism == processors


@pytest.mark.parametrize(
    ("gigabytes", "tasks", "arguments", "machines"),
    [
        (0.1, 2, (), "--num_workers=1 --max_num_workers=1"),
        (96, 1431, (), "--num_workers=4 --max_num_workers=16"),
        (96, 1431, ("--machine_type=n2-standard-16",), "--num_workers=1 --max_num_workers=4"),
        (96, 12, (), "--num_workers=3 --max_num_workers=3"),  # compressed files are a task each
        (50_000, 745_059, (), "--num_workers=100 --max_num_workers=100"),
        (96, 0, (), "--num_workers=4 --max_num_workers=16"),
        (96, 1431, ("--max_num_workers=2",), "--num_workers=2"),
        (50_000, 745_059, ("--max_num_workers=500",), "--num_workers=100"),
        (96, 1431, ("--num_workers=90",), "--max_num_workers=100"),
        (96, 1431, ("--num_workers=200",), "--max_num_workers=200"),
        (96, 1431, ("--num_workers=1", "--max_num_workers=3"), ""),
    ],
)
def test_machines_suit_the_work_unless_the_user_says_how_many(
    gigabytes: float, tasks: int, arguments: tuple[str, ...], machines: str
) -> None:
    engine = DataflowEngine(RunOptions(), arguments)
    assert " ".join(engine.suit_work(tasks, round(gigabytes * 10**9))) == machines


def test_a_job_is_watched_at_its_own_page() -> None:
    url = DataflowEngine(RunOptions(), SERVICE).page("2026-11-21_01")
    assert url.endswith("/dataflow/jobs/us-central1/2026-11-21_01?project=test-project")


def test_a_dry_run_says_so_and_leaves_nothing() -> None:
    before = listing(BUCKET)
    outcome = submit(*SERVICE, DRY_RUN)
    assert "nothing was submitted" in outcome.output
    assert "complete once" not in outcome.output
    assert listing(BUCKET) == before


def test_a_dry_run_changes_no_data_set() -> None:
    made, text = f"{BUCKET}/made", f"{BUCKET}/in/*"
    build = ("--tokenizer", TOKENIZER, "--num-shards", "3", "--input", text)
    run_here("bert", *build, "--output", made, "--", "--no_auth")
    store = OriginStore(locate(made), read_manifest(locate(made)))
    document = ("--document", str(next(store.origins("train", [0])).document))
    before = listing(made)
    for command in (
        ("bert", *build, "--output", made, "--append", "--existing", "allow"),
        ("drop", made, *document),
    ):
        outcome = run_here(*command, "--runner", "DataflowRunner", "--", *SERVICE, DRY_RUN)
        assert "nothing was submitted" in outcome.output, command
        assert "submitted;" not in outcome.output
        assert listing(made) == before


def test_the_launcher_of_the_template_writes_the_job_and_submits_nothing() -> None:
    """The service then reads the job from the file that it has named to its launcher."""
    job_object, output = f"{BUCKET}/staging/job_object", f"{BUCKET}/from-template"
    arguments = launch.command_line([
        "--objective=bert", f"--input={BUCKET}/in/*", f"--tokenizer={TOKENIZER}",
        f"--output={output}", "--flags=--num-shards 3", *SERVICE, "--runner=DataflowRunner",
        f"--template_location={job_object}", "--job_name=corpusmill-bert-1",
        "--service_account_email=worker@project", "--no_use_public_ips",
    ])  # fmt: skip
    outcome = run_here(*arguments)
    assert "complete once" in outcome.output
    with FileSystems.open(job_object) as stream:
        job = json.loads(stream.read())
    assert job["name"] == "corpusmill-bert-1"
    [pool] = job["environment"]["workerPools"]
    assert pool["machineType"] == "n2-standard-4"
    assert pool["numWorkers"] == pool["autoscalingSettings"]["maxNumWorkers"] == 1
    assert pool["ipConfiguration"] == "WORKER_IP_PRIVATE"
    # The plan and the tokenizer wait for the workers.
    assert any(name.endswith("plan.jsonl") for name in listing(output))


def test_shards_that_no_worker_can_build_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DataflowEngine, "largest_shard_bytes", 100_000)
    # 50,947 bytes, ten times, to three shards and one of the validation split.
    submit(*SERVICE, DRY_RUN, refused=("--num-shards", "4 shards", "Give 6 "))

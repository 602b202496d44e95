"""Google Cloud Dataflow.

Nothing here was run on the service itself: the tests run Beam's own translation of the job, up to
what would be sent to it.
"""

import os
import re
from collections.abc import Sequence
from functools import partial

from corpusmill.corpus.hub.wikitext import WIKITEXT
from corpusmill.errors import UserError
from pipeline.runners.arguments import given_flags
from pipeline.runners.portable import submit as submit_portable
from pipeline.runners.portable import submit_pipeline
from pipeline.runners.run import Run, Submitted
from pipeline.runners.setting import Reach, Setting

# Four processors and 16 GB: a worker process a processor, each with at most 1.3 GB for sorting and
# its pool. Every machine of this series knows the instructions that the image's kernels are
# compiled for.
_MACHINE, _PROCESSORS = "n2-standard-4", 4

# The image and the pool's copy of each process; documents and rows wait in the bucket.
_DISK_GB = 50

# Where the code of the job comes from; without any of them workers have none.
_CODE = ("sdk_container_image", "extra_package", "extra_packages", "setup_file")

_BUCKET = re.compile(r"gs://[^/]+(/.*)?")


def defaults(arguments: Sequence[str]) -> dict[str, str]:
    """A machine with its disk, and no pickled main module.

    Beam pickles the main module of whoever submits to this service, which here is the command line.
    With an image of the user's, that has all it needs, nothing is installed where workers start.
    """
    given = given_flags(arguments)
    ours = {"machine_type": _MACHINE, "disk_size_gb": str(_DISK_GB)}
    if "worker_machine_type" in given:
        del ours["machine_type"]
    if "save_main_session" not in given:
        ours["no_save_main_session"] = ""
    if "sdk_container_image" in given:
        ours["sdk_location"] = "container"
    return ours


def reach(_: Sequence[str]) -> Reach:
    """Workers are machines of the cloud."""
    return Reach.STORES


def parallelism(arguments: Sequence[str], _: int) -> int | None:
    """The processors of `--max_num_workers` machines; it scales by itself otherwise."""
    most = given_flags(arguments).get("max_num_workers", "")
    return int(most) * _processors(arguments) if most.isdigit() else None


def _processors(arguments: Sequence[str]) -> int:
    """Of a machine, by the number that the names of all series end with."""
    given = given_flags(arguments)
    name = given.get("machine_type") or given.get("worker_machine_type") or _MACHINE
    found = re.search(r"-(\d+)$", name)
    return int(found[1]) if found else 1


def check(setting: Setting) -> None:
    """Refuse what Beam or the service would refuse later, or make up for without a word.

    Raises:
        UserError: an option is missing, or names a place that the service cannot reach.
    """
    given = given_flags(setting.arguments)
    if not given.get("project"):
        raise _missing("--project", "the project that pays is not given", "--project=PROJECT")
    if not (given.get("region") or os.environ.get("CLOUDSDK_COMPUTE_REGION")):
        raise _missing("--region", "the place of the workers is not given", "--region=us-central1")
    if not given.get("temp_location"):
        cause = "without it Beam would make a bucket of its own in your project"
        raise _missing("--temp_location", cause, "--temp_location=gs://BUCKET/FOLDER")
    for flag in ("temp_location", "staging_location"):
        if flag in given and not _BUCKET.fullmatch(given[flag]):
            raise UserError(
                f"--{flag} {given[flag]}",
                "the service stages files in a bucket of Google Cloud Storage only",
                f"Give --{flag}=gs://BUCKET/FOLDER",
            )
    if not any(given.get(flag) for flag in _CODE):
        cause = "workers would start without the code of this job"
        raise _missing("--sdk_container_image", cause, "the image of deploy/dataflow")
    _check_inputs(setting)


def _missing(flag: str, cause: str, cure: str) -> UserError:
    return UserError(flag, cause, f"Add {cure} behind --")


def _check_inputs(setting: Setting) -> None:
    for flag, value in setting.paths:
        if flag == "--input" and value in WIKITEXT:
            raise UserError(
                f"{flag} {value}",
                "it would be put on this machine, which workers cannot reach",
                "Copy the text into a bucket, or name its files on the hub (hf://datasets/...)",
            )


def console_url(arguments: Sequence[str], job_id: str) -> str:
    """Where a job is watched."""
    given = given_flags(arguments)
    region = given.get("region") or os.environ.get("CLOUDSDK_COMPUTE_REGION", "")
    place = f"{region}/{job_id}?project={given.get('project', '')}"
    return f"https://console.cloud.google.com/dataflow/jobs/{place}"


def submit(job: Run) -> Submitted:
    """Submit a job and, unless told otherwise, wait for its end.

    With Beam's `--dry_run=True` it is translated, and nothing runs.

    Raises:
        UserError: it lacks an option.
        RuntimeError: the job ended otherwise than done.
    """
    given = given_flags(job.beam_arguments)
    is_dry = given.get("dry_run", "False").lower() in {"true", "1"}
    if is_dry or given.get("template_location"):
        submit_pipeline(job)
        return Submitted(False, dry=is_dry)
    return submit_portable(job, partial(console_url, job.beam_arguments))

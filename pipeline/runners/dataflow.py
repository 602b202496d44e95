"""Google Cloud Dataflow.

None of this was run on the service itself: the tests run Beam's own translation of the job, up to
what would be sent to the service.
"""

import os
import re
from datetime import UTC, datetime

from corpusmill.corpus.hub_data_sets import WIKITEXT
from corpusmill.errors import UserError, option
from pipeline.runners.engine import Reach, Run, Submitted
from pipeline.runners.portable import PortableEngine

# Four processors and 16 GB: one worker process for each processor, with at most 1.3 GB each for its
# sorting and its pool. Every machine of this series has the instructions that the image's kernels
# are compiled for.
_MACHINE = "n2-standard-4"

# The image, and each process' copy of the pool; documents and rows wait in the bucket.
_DISK_GB = 50

# Machines take minutes to start. So much text is ten minutes of work for a processor, at 10 MB/s.
_TEXT_BYTES_OF_PROCESSOR = 6 * 10**9

# The service may give a job so many times the machines with which it starts, if it takes longer.
_GROWTH = 4

# What a user has not asked for should neither exceed quotas nor cost a fortune by the hour.
_MOST_MACHINES = 100

# Where workers get the code of the job.
_CODE = ("sdk_container_image", "extra_packages", "setup_file")

_BUCKET = re.compile(r"gs://[^/]+(/.*)?")


class DataflowEngine(PortableEngine):
    """The service, whose workers are machines in the cloud."""

    reach = Reach.STORES

    def defaults(self) -> dict[str, str]:
        """Return a name, a machine with its disk, and prevent that the main module is pickled.

        The alerts of deploy/dataflow find jobs by the beginning of their names.
        Beam pickles the main module of whoever submits to this service; here, the command line. The
        user's image has all that it needs, so nothing is installed when its workers start.
        """
        ours = {
            "job_name": f"corpusmill-{datetime.now(UTC):%Y%m%d-%H%M%S}",
            "machine_type": _MACHINE,
            "disk_size_gb": str(_DISK_GB),
        }
        if "machine_type" in self.flags:  # --worker_machine_type means the same
            del ours["machine_type"]
        if "save_main_session" not in self.flags:
            ours["no_save_main_session"] = ""
        if "sdk_container_image" in self.flags:
            ours["sdk_location"] = "container"
        return ours

    @property
    def parallelism(self) -> int | None:
        """The processors of --max_num_workers machines; without it the service scales by itself."""
        machines = self.flags.get("max_num_workers")
        return machines and machines * self._processors

    def suit_work(self, tasks: int, text_bytes: int) -> tuple[str, ...]:
        """Return how many machines a job begins with, and may grow to, unless the user says it.

        The service would begin with one, as it cannot see how long a task takes.

        Args:
            tasks: the number of tasks, beyond which a processor would be idle; 0 if unknown.
            text_bytes: the size of the text.
        """
        most = min(_MOST_MACHINES, -(-tasks // self._processors)) if tasks else _MOST_MACHINES
        begin = -(-text_bytes // (self._processors * _TEXT_BYTES_OF_PROCESSOR))
        begin = max(1, min(begin, most, self.flags.get("max_num_workers", most)))
        begin = self.flags.get("num_workers", begin)
        numbers = {"num_workers": begin, "max_num_workers": max(begin, min(_GROWTH * begin, most))}
        return tuple(f"--{name}={n}" for name, n in numbers.items() if name not in self.flags)

    def check_options(self) -> None:
        """Refuse what Beam or the service would refuse later, or silently replace.

        Raises:
            UserError: an option is missing, or names a place that the service cannot reach.
        """
        if not self.flags.get("project"):
            raise _missing("--project", "the project that pays is missing", "--project=PROJECT")
        if not self._region:
            raise _missing("--region", "the workers' region is missing", "--region=us-central1")
        if not self.flags.get("temp_location"):
            cause = "without it Beam would make a bucket of its own in your project"
            raise _missing("--temp_location", cause, "--temp_location=gs://BUCKET/FOLDER")
        for flag in ("temp_location", "staging_location"):
            if flag in self.flags and not _BUCKET.fullmatch(self.flags[flag]):
                raise UserError(
                    f"--{flag} {self.flags[flag]}",
                    "the service stages files only in a bucket of Google Cloud Storage",
                    f"Give --{flag}=gs://BUCKET/FOLDER",
                )
        if not any(self.flags.get(flag) for flag in _CODE):
            cause = "workers would start without the code of this job"
            given = "--sdk_container_image=IMAGE (docs/how-to/dataflow.md says how one is built)"
            raise _missing("--sdk_container_image", cause, given)
        for name, path in self.places:
            if name == "input" and path in WIKITEXT:
                raise UserError(
                    option(name, path),
                    "it would be stored on this machine, which workers cannot reach",
                    "Copy the text into a bucket, or name its files on the hub (hf://datasets/...)",
                )

    def page(self, job_id: str) -> str:
        """Return the URL of a job's page in the console of Google Cloud."""
        place = f"{self._region}/{job_id}?project={self.flags.get('project', '')}"
        return f"https://console.cloud.google.com/dataflow/jobs/{place}"

    def submit(self, run: Run) -> Submitted:
        """Submit a job and, unless --no-wait is set, wait for its end.

        With Beam's --dry_run=True the job is translated, and nothing runs.

        Raises:
            UserError: an option is missing.
            RuntimeError: the job failed.
        """
        is_dry = self.flags.get("dry_run", "").lower() in {"true", "1"}
        if is_dry or self.flags.get("template_location"):
            self.submit_pipeline(run)
            return Submitted(False, dry=is_dry)
        return super().submit(run)

    @property
    def _processors(self) -> int:
        """The processors of a machine, with whose number the names of all series end."""
        processors = re.search(r"-(\d+)$", self.flags["machine_type"])
        return int(processors[1]) if processors else 1

    @property
    def _region(self) -> str:
        return self.flags.get("region") or os.environ.get("CLOUDSDK_COMPUTE_REGION", "")


def _missing(flag: str, cause: str, given: str) -> UserError:
    return UserError(flag, cause, f"Add {given} after --")

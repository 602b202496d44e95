"""Flink, embedded in Beam's job server or as a cluster that --flink_master names."""

from contextlib import ExitStack
from dataclasses import replace
from enum import Enum

from apache_beam.options.pipeline_options import FlinkRunnerOptions
from apache_beam.runners.portability.flink_runner import FlinkJarJobServer

from corpusmill.errors import UserError
from corpusmill.processors import count_processors
from pipeline.runners.beam_servers import check_job_server, name_jar
from pipeline.runners.engine import Reach, Run, Submitted
from pipeline.runners.flink.job import (
    FlinkJob,
    FlinkRest,
    NoAnswerError,
    Overview,
    embedded_configuration,
    started_runner,
)
from pipeline.runners.flink.pool import started_pool
from pipeline.runners.portable import PortableEngine

# Beside each TaskManager, where deploy/flink starts it.
_WORKER_POOL = "localhost:50000"

# Versions of Flink that Beam has a job server for; the last is its default. The other is ours.
_VERSIONS = FlinkRunnerOptions.PUBLISHED_FLINK_VERSIONS
_TESTED_VERSION = "1.19"


class Place(Enum):
    """Where Flink runs."""

    EMBEDDED = "in the process of the job server"
    CLUSTER = "at --flink_master"
    ELSEWHERE = "where the job server of --job_endpoint knows, and we do not"


class FlinkEngine(PortableEngine):
    """Flink in the process of Beam's job server, or the cluster that --flink_master names."""

    @property
    def place(self) -> Place:
        """Where Flink runs."""
        if self.flags.get("flink_master", "") not in {"", "[local]", "[auto]"}:
            return Place.CLUSTER
        return Place.ELSEWHERE if "job_endpoint" in self.flags else Place.EMBEDDED

    def defaults(self) -> dict[str, str]:
        """Return the settings that Flink needs for a batch job in Python, and does not mention.

        Without BATCH_FORCED, Flink repeats finished ranges when a worker dies; threads instead of
        processes share one interpreter lock. Workers do not stay from one stage to the next
        (--environment_cache_millis), since Flink would try again with one that has died.

        Raises:
            UserError: the cluster does not answer.
        """
        common = {"execution_mode_for_batch": "BATCH_FORCED"}
        if self.place is Place.ELSEWHERE:
            return common
        common |= name_jar("flink")
        if self.place is Place.EMBEDDED:
            processors = str(count_processors())
            if "flink_job_server_jar" not in {*common, *self.flags}:
                common["flink_version"] = _TESTED_VERSION
            return common | {
                "flink_master": "[local]",
                "parallelism": processors,
                "environment_type": "LOOPBACK",
                "experiments": "use_loopback_process_worker=True",
                "sdk_worker_parallelism": processors,
            }
        overview = self._ask_cluster()
        version = overview.version.rpartition(".")[0]
        if version in _VERSIONS:
            common["flink_version"] = version
        return common | {
            "parallelism": str(max(1, overview.free_slots)),
            "environment_type": "EXTERNAL",
            "environment_config": _WORKER_POOL,
            "sdk_worker_parallelism": str(-(-overview.slots // max(1, overview.task_managers))),
        }

    @property
    def reach(self) -> Reach:
        """Embedded, all files of this machine; on a cluster, what all of its machines mount."""
        return Reach.HERE if self.place is Place.EMBEDDED else Reach.SHARED

    @property
    def parallelism(self) -> int | None:
        """The value of --parallelism."""
        return self.flags.get("parallelism")

    def count_workers(self, text_bytes: int) -> int:
        """Return the value of --parallelism if the user gave it, or else that of --workers."""
        is_ours = any(argument.startswith("--parallelism=") for argument in self.ours)
        return self.options.workers if is_ours else super().count_workers(text_bytes)

    @property
    def reason_to_wait(self) -> str:
        """Embedded, all of Flink; on a cluster, workers that are on this machine."""
        if self.place is Place.EMBEDDED:
            return "embedded Flink ends with this command, and the job with it"
        return super().reason_to_wait

    def check_options(self) -> None:
        """Refuse options with which Flink would wait for ever, or fail after minutes.

        Raises:
            UserError: the cluster has too few free slots or another version, or there is no Java or
                no job server.
        """
        if self.place is Place.CLUSTER:
            self._check_cluster(self._ask_cluster())
        if "job_endpoint" not in self.flags:
            check_job_server("flink", FlinkJarJobServer, self.arguments)

    def submit(self, run: Run) -> Submitted:
        """Submit a job and, unless --no-wait is set, watch it until its end.

        Whatever ends the wait, such as Ctrl-C or a request to end, the job is cancelled in Flink.

        Raises:
            UserError: the job found a mistake of the user's.
            FlinkJobError: it failed, or made no progress.
        """
        embedded = self.place is Place.EMBEDDED
        if self.place is Place.ELSEWHERE or (embedded and "flink_conf_dir" in self.flags):
            return super().submit(run)
        with ExitStack() as stack:
            runner = stack.enter_context(started_runner())
            master, late = self.flags["flink_master"], []
            if embedded:
                folder, master = stack.enter_context(embedded_configuration())
                late.append(f"--flink_conf_dir={folder}")
                if self.flags.get("environment_type") == "LOOPBACK":
                    pool = stack.enter_context(started_pool("127.0.0.1:0"))
                    late += ["--environment_type=EXTERNAL", f"--environment_config={pool}"]
            run = replace(run, late_arguments=tuple(late))
            return FlinkJob(self, runner, FlinkRest(master), embedded).submit(run)

    def _check_cluster(self, overview: Overview) -> None:
        master = self.flags["flink_master"]
        version = self.flags.get("flink_version", _VERSIONS[-1])
        if not overview.slots:
            raise UserError(
                f"--flink_master {master}",
                "no TaskManager has registered there, so the cluster has no slots",
                "Start TaskManagers (docs/how-to/flink.md)",
            )
        if not f"{overview.version}.".startswith(f"{version}."):
            raise UserError(
                f"--flink_master {master} --flink_version {version}",
                f"the cluster has Flink {overview.version}, and Beam has job servers for "
                f"{', '.join(_VERSIONS)}",
                "Give the cluster's version, or use a cluster with one of these",
            )
        if self.parallelism and self.parallelism > overview.free_slots:
            raise UserError(
                f"--parallelism {self.parallelism}",
                f"{overview.free_slots} of the cluster's {overview.slots} slots are free, and "
                "Flink would wait for more",
                "Give at most the number of free slots, end another job, or add TaskManagers",
            )

    def _ask_cluster(self) -> Overview:
        master = self.flags["flink_master"]
        try:
            return FlinkRest(master).overview()
        except NoAnswerError as error:
            raise UserError(
                f"--flink_master {master}",
                f"Flink's REST interface does not answer there ({error})",
                "Give host:port of the JobManager's REST interface; the port is 8081 by default",
            ) from None

"""The table of runners: all that is particular to one is named here, and why it is so."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from corpusmill.errors import UserError
from pipeline.runners import dataflow, portable, prism
from pipeline.runners.failures import JobCancelledError, JobFailedError, raise_explained
from pipeline.runners.flink import job as flink_job
from pipeline.runners.flink import options as flink
from pipeline.runners.local import runner as local
from pipeline.runners.local.worker_watch import WorkerDiedError
from pipeline.runners.run import Run, Submitted
from pipeline.runners.setting import Reach, Setting, check_reach, check_spread, check_wait

_MEGABYTE = 2**20


def _refuse_nothing(_: Setting) -> None:
    """An engine without rules of its own."""


@dataclass(frozen=True)
class Runner:
    """An engine, and how our job is run on it.

    Attributes:
        name: Beam's name of it.
        aliases: further names that mean it.
        submission: how the job gets there.
        environment: where the Python code of the workers runs.
        range_bytes: longest stretch of a file that one call reads, by default.
        reach: which files its workers open, by Beam's options.
        parallelism: how many tasks run at once, by Beam's options and `--workers`; None unknown.
        tie: what of a job lives in this process, by Beam's options; "" where it goes on without it.
        defaults: Beam's options that we set unless the user does, by those that the user gives.
        submit: runs a job.
        check: refuses what the engine cannot do.
    """

    name: str
    aliases: tuple[str, ...]
    submission: str
    environment: str
    range_bytes: int
    reach: Callable[[Sequence[str]], Reach]
    parallelism: Callable[[Sequence[str], int], int | None]
    tie: Callable[[Sequence[str]], str]
    defaults: Callable[[Sequence[str]], dict[str, str]]
    submit: Callable[[Run], Submitted]
    check: Callable[[Setting], None] = _refuse_nothing

    def refuse(self, setting: Setting, workers: int) -> None:
        """Refuse, before submission, what would fail or starve there.

        Raises:
            UserError: the engine cannot run it.
        """
        check_reach(setting, self.reach(setting.arguments))
        check_spread(setting, self.parallelism(setting.arguments, workers))
        check_wait(setting, self.tie(setting.arguments))
        self.check(setting)
        portable.check_endpoint(setting.arguments)

    def run(self, job: Run) -> Submitted:
        """Run a job.

        Raises:
            UserError: the job found a mistake of the user's.
            WorkerDiedError: a worker process of the local runner died.
            JobFailedError: the engine ended the job for a reason that is known.
            JobCancelledError: somebody else cancelled the job.
        """
        try:
            return self.submit(replace(job, runner=self.name))
        except (UserError, WorkerDiedError, JobFailedError, JobCancelledError):
            raise
        except Exception as error:
            raise_explained(error)
            raise


LOCAL = Runner(
    name="local",
    aliases=("DirectRunner", "FnApiRunner"),
    submission="in this process, with worker processes for large inputs",
    environment="this machine's Python",
    range_bytes=64 * _MEGABYTE,
    reach=local.reach,
    parallelism=local.parallelism,
    tie=local.tie,
    defaults=portable.defaults,
    submit=local.submit,
)
PRISM = Runner(
    name="PrismRunner",
    aliases=(),
    submission="to a Prism process that Beam starts, or one that is there (--job_endpoint)",
    environment="one process of this machine",
    range_bytes=64 * _MEGABYTE,
    reach=prism.reach,
    parallelism=prism.parallelism,
    tie=prism.tie,
    defaults=prism.defaults,
    submit=prism.submit,
    check=prism.check,
)
FLINK = Runner(
    name="FlinkRunner",
    aliases=(),
    submission="by Beam's job server, to Flink in it or to the cluster --flink_master names",
    environment="processes of this machine, or a worker pool beside each TaskManager",
    range_bytes=64 * _MEGABYTE,
    reach=flink.reach,
    parallelism=flink.parallelism,
    tie=flink.tie,
    defaults=flink.defaults,
    submit=flink_job.submit,
    check=flink.check,
)
DATAFLOW = Runner(
    name="DataflowRunner",
    aliases=(),
    submission="to the service, by its client library",
    environment="the container image --sdk_container_image names",
    range_bytes=64 * _MEGABYTE,
    reach=dataflow.reach,
    parallelism=dataflow.parallelism,
    tie=portable.tie,
    defaults=dataflow.defaults,
    submit=dataflow.submit,
    check=dataflow.check,
)
PORTABLE = Runner(
    name="PortableRunner",
    aliases=(),
    submission="to the job server that --job_endpoint names",
    environment="as --environment_type says",
    range_bytes=64 * _MEGABYTE,
    reach=portable.reach,
    parallelism=portable.parallelism,
    tie=portable.tie,
    defaults=portable.defaults,
    submit=portable.submit,
    check=portable.check,
)
RUNNERS = (LOCAL, PRISM, FLINK, DATAFLOW, PORTABLE)


def find_runner(name: str) -> Runner:
    """The runner of a name; one that the table does not know is run as a portable one."""
    for runner in RUNNERS:
        if name == runner.name or name in runner.aliases:
            return runner
    return replace(PORTABLE, name=name)

"""The local engine, which needs nothing but Python; worker_watch.py watches its workers.

It is Beam's FnApiRunner, in this process or with worker processes. It cures four faults that were
measured (Beam 2.77):

- the timed flush of its data plane silently loses elements: it is switched off;
- a worker process that dies makes the job hang for ever: a watch on each worker ends the job;
- it gives worker processes empty options: they get ours;
- a bundle waits up to 200 ms for the thread that samples its stages: the samples are 10 ms apart.
"""

from corpusmill.location import scheme_of
from pipeline.runners.engine import Engine, Reach, Run, Submitted
from pipeline.runners.local.workers import Worker, most_workers, start_workers

# Beam does without them, as it is installed without its extras.
_CLIENTS = ("google.cloud", "apitools", "pymongo", "bson", "boto3")


class LocalEngine(Engine):
    """Beam's local runner, in this process or with worker processes of it."""

    name = "local"
    # No shard is ever retried here.
    largest_shard_bytes = float("inf")
    reach = Reach.HERE
    reason_to_wait = "it runs in this process"

    @property
    def unused_packages(self) -> tuple[str, ...]:
        """The clients of stores and services, unless a place is in one of them."""
        is_here = all(scheme_of(path) in {None, "hf"} for _, path in self.places)
        return _CLIENTS if is_here and not self.flags else ()

    @property
    def parallelism(self) -> int:
        """The number of workers: not more than this machine can hold."""
        return min(self.options.workers, most_workers())

    @property
    def remark(self) -> str:
        """Say that there are fewer workers than the user wants."""
        wanted, workers = self.options.workers, self.parallelism
        cause = "as many as this machine's cores and memory can hold"
        return f"--workers {wanted}: {workers} are used, {cause}" if workers < wanted else ""

    def count_workers(self, text_bytes: int) -> int:
        """Return how many of the wanted workers the input is worth; 0 if this process is faster."""
        workers, min_bytes = self.options.workers, self.options.min_bytes_per_worker
        return min(workers, text_bytes // min_bytes) if min_bytes else workers

    def start_workers(self, text_bytes: int) -> list[Worker]:
        """Start the worker processes that the input is worth, as far as this machine holds them."""
        return start_workers(min(self.parallelism, self.count_workers(text_bytes)))

    def load(self) -> None:
        """Import Beam's runner and its worker."""
        import pipeline.runners.local.submission  # noqa: PLC0415
        import pipeline.runners.local.worker  # noqa: F401, PLC0415

    def submit(self, run: Run) -> Submitted:
        """Run a job to its end.

        Raises:
            WorkerDiedError: a worker process died.
        """
        from pipeline.runners.local.submission import run_locally  # noqa: PLC0415  imports Beam

        run_locally(run, self.arguments)
        return Submitted()

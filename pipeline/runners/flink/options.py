"""Flink: embedded in Beam's job server, or a cluster that `--flink_master` names."""

import os
from collections.abc import Sequence
from enum import Enum

from apache_beam.options.pipeline_options import FlinkRunnerOptions

from corpusmill.errors import UserError
from pipeline.runners import portable
from pipeline.runners.arguments import given_flags
from pipeline.runners.flink.rest import FlinkRest, NoAnswerError, Overview
from pipeline.runners.flink.server import JAR_VARIABLE, check_job_server
from pipeline.runners.setting import Reach, Setting

# Beside each TaskManager, as deploy/flink puts it there.
_WORKER_POOL = "localhost:50000"


class Place(Enum):
    """Where Flink runs."""

    EMBEDDED = "in the job server's own process"
    CLUSTER = "at --flink_master"
    ELSEWHERE = "where the job server of --job_endpoint was told, which we are not"


def place_of(arguments: Sequence[str]) -> Place:
    """Where Flink runs, by Beam's options."""
    given = given_flags(arguments)
    if given.get("flink_master", "") not in ("", "[local]", "[auto]"):
        return Place.CLUSTER
    return Place.ELSEWHERE if "job_endpoint" in given else Place.EMBEDDED


def defaults(arguments: Sequence[str]) -> dict[str, str]:
    """The set-up that Flink needs for a batch job in Python, of which it tells nothing.

    Without BATCH_FORCED a worker that dies makes Flink do finished ranges again; threads instead of
    processes share one interpreter lock. Workers are not kept from one stage to the next
    (--environment_cache_millis), since Flink would try again with one that has died.

    Raises:
        UserError: the cluster does not answer.
    """
    common = {"execution_mode_for_batch": "BATCH_FORCED"}
    place = place_of(arguments)
    if place is Place.ELSEWHERE:
        return common
    if named := os.environ.get(JAR_VARIABLE):
        common["flink_job_server_jar"] = named
    if place is Place.EMBEDDED:
        processors = str(os.cpu_count() or 1)
        return common | {
            "flink_master": "[local]",
            "parallelism": processors,
            "environment_type": "LOOPBACK",
            "experiments": "use_loopback_process_worker=True",
            "sdk_worker_parallelism": processors,
        }
    overview = _ask(arguments)
    return common | {
        "flink_version": ".".join(overview.version.split(".")[:2]),
        "parallelism": str(max(1, overview.free_slots)),
        "environment_type": "EXTERNAL",
        "environment_config": _WORKER_POOL,
        "sdk_worker_parallelism": str(-(-overview.slots // max(1, overview.task_managers))),
    }


def reach(arguments: Sequence[str]) -> Reach:
    """Embedded: this machine. A cluster: what all of its machines mount."""
    return Reach.HERE if place_of(arguments) is Place.EMBEDDED else Reach.SHARED


def tie(arguments: Sequence[str]) -> str:
    """Embedded: all of it. On a cluster: its workers, where they are here."""
    if place_of(arguments) is Place.EMBEDDED:
        return "embedded Flink ends with this command, and the job with it"
    return portable.tie(arguments)


def parallelism(arguments: Sequence[str], _: int) -> int | None:
    """What `--parallelism` says."""
    given = given_flags(arguments).get("parallelism", "")
    return int(given) if given.isdigit() else None


def check(setting: Setting) -> None:
    """Refuse what Flink would let wait for ever, or fail after minutes.

    Raises:
        UserError: a cluster without enough free slots or of another version; no Java or job server.
    """
    arguments = setting.arguments
    if place_of(arguments) is Place.CLUSTER:
        _check_cluster(arguments, _ask(arguments))
    if "job_endpoint" not in given_flags(arguments):
        check_job_server(arguments)


def _check_cluster(arguments: Sequence[str], overview: Overview) -> None:
    given = given_flags(arguments)
    master, version = given["flink_master"], given.get("flink_version", "")
    published = FlinkRunnerOptions.PUBLISHED_FLINK_VERSIONS
    if not overview.slots:
        raise UserError(
            f"--flink_master {master}",
            "no TaskManager has registered there, so there is no slot",
            "Start TaskManagers (deploy/flink)",
        )
    if f"{overview.version}.".startswith(f"{version}.") is False or version not in published:
        raise UserError(
            f"--flink_version {version}",
            f"the cluster has Flink {overview.version}, and Beam has job servers for "
            f"{', '.join(published)}",
            "Give the cluster's version, or use a cluster of one of these",
        )
    asked = parallelism(arguments, 0)
    if asked and asked > overview.free_slots:
        raise UserError(
            f"--parallelism {asked}",
            f"the cluster has {overview.slots} slots, of which {overview.free_slots} are free, and "
            "Flink would wait for more",
            "Give at most the free ones, end another job, or add TaskManagers",
        )


def _ask(arguments: Sequence[str]) -> Overview:
    master = given_flags(arguments)["flink_master"]
    try:
        return FlinkRest(master).overview()
    except NoAnswerError as error:
        raise UserError(
            f"--flink_master {master}",
            f"Flink's REST interface does not answer there ({error})",
            "Give host:port of the JobManager's REST interface, by default port 8081",
        ) from None

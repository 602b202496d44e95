"""Where Beam's job server and Flink's own jars are, or why they are not."""

import os
import shutil
from importlib.util import find_spec
from pathlib import Path

from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.portability.flink_runner import FlinkJarJobServer

# The version of the distribution that pip installs, as Beam counts Flink's versions.
FLINK_VERSION = "1.19"

JAR_VARIABLE = "FLINK_JOB_SERVER_JAR"


class MissingJarError(Exception):
    """A jar cannot be had; says which, why and what to do."""


def find_job_server() -> Path:
    """Beam's job server: the jar that the environment names, or else Beam's own download.

    Raises:
        MissingJarError: there is neither, or no Java.
    """
    if not shutil.which("java"):
        raise MissingJarError("there is no java")
    if named := os.environ.get(JAR_VARIABLE):
        if Path(named).is_file():
            return Path(named)
        raise MissingJarError(f"{JAR_VARIABLE} names {named}, which is no file")
    server = FlinkJarJobServer(PipelineOptions(["--flink_version", FLINK_VERSION]))
    url = server.path_to_jar()
    try:
        return Path(server.local_jar(url))
    except Exception as error:
        raise MissingJarError(
            f"{url} cannot be downloaded ({error}); give a job server's jar with {JAR_VARIABLE}"
        ) from None


def find_distribution() -> Path:
    """The folder of Flink's own jars, as apache-flink-libraries installs it.

    Raises:
        MissingJarError: it is not installed.
    """
    package = find_spec("pyflink")
    for place in (package and package.submodule_search_locations) or ():
        if list(Path(place).glob("lib/flink-dist-*.jar")):
            return Path(place)
    raise MissingJarError("apache-flink-libraries is not installed (pip install --group flink)")

"""Picks the job's own counters out of all that Beam reports."""

from collections import Counter
from collections.abc import Iterable

from apache_beam.metrics import monitoring_infos
from apache_beam.portability.api import metrics_pb2

from transforms.tally import NAMESPACE


def read_counters(infos: Iterable[metrics_pb2.MonitoringInfo]) -> Counter[str]:
    """Sum each of the job's counters over all stages."""
    values: Counter[str] = Counter()
    for info in infos:
        namespace, name = monitoring_infos.parse_namespace_and_name(info)
        if namespace == NAMESPACE and monitoring_infos.is_counter(info):
            values[name] += monitoring_infos.extract_counter_value(info)
    return values

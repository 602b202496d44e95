"""What a worker process of this machine changes in Beam."""

from apache_beam.runners.worker.statesampler import StateSampler
from apache_beam.utils.counters import CounterFactory

from pipeline.runners.local.worker import end_bundles_at_once


def test_a_bundle_ends_within_moments_of_its_last_element() -> None:
    end_bundles_at_once()
    assert StateSampler("stage", CounterFactory()).sampling_period_ms <= 10

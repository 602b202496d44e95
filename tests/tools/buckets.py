"""The fixture of tests that run once on each store; a conftest.py imports it."""

import pytest
from apache_beam.io.filesystems import FileSystems
from apache_beam.options.pipeline_options import PipelineOptions

from tests.tools.object_stores import Bucket, ObjectStores


@pytest.fixture(params=["gs", "s3"])
def bucket(
    request: pytest.FixtureRequest, object_stores: ObjectStores, monkeypatch: pytest.MonkeyPatch
) -> Bucket:
    """A new bucket of each store, which this process and its children can reach."""
    for name, value in object_stores.environment().items():
        monkeypatch.setenv(name, value)
    options = PipelineOptions(list(object_stores.beam_arguments()))
    monkeypatch.setattr(FileSystems, "_pipeline_options", options)
    proxy = object_stores.proxies[request.param]
    proxy.clear()
    url = object_stores.create_bucket(request.param)
    proxy.clear()
    return Bucket(url, proxy, object_stores.beam_arguments())

"""What Beam works out anew for each of the many small pipelines of the tests, worked out once."""

import bz2
from collections.abc import Iterator
from types import MethodType, SimpleNamespace
from typing import Any
from weakref import WeakKeyDictionary

import apache_beam as beam
import pytest
from apache_beam.internal import cloudpickle_pickler
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms import userstate


@pytest.fixture(scope="session", autouse=True)
def remembered_beam() -> Iterator[None]:
    """Halve the time in which Beam constructs and translates a pipeline.

    In a small job, this takes longer than all else.
    """
    with pytest.MonkeyPatch.context() as monkeypatch:
        _remember_specs(monkeypatch)
        _remember_views(monkeypatch)
        _compress_quickly(monkeypatch)
        yield


def _remember_specs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look for states and timers once in each class of DoFns, not several times in each DoFn."""
    find_specs = userstate.get_dofn_specs
    known: dict[type, Any] = {}

    def remember(dofn: beam.DoFn) -> Any:
        # Beam's own class for functions has them as attributes of its objects.
        if any(isinstance(value, MethodType) for value in vars(dofn).values()):
            return find_specs(dofn)
        if type(dofn) not in known:
            known[type(dofn)] = find_specs(dofn)
        return known[type(dofn)]

    monkeypatch.setattr(userstate, "get_dofn_specs", remember)


def _remember_views(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parse the arguments of a pipeline once for each kind of options, not at each look at them."""
    make_view = PipelineOptions.view_as
    known: WeakKeyDictionary[PipelineOptions, dict[Any, Any]] = WeakKeyDictionary()

    def remember(self: PipelineOptions, kind: Any) -> Any:
        views = known.setdefault(self, {})
        view = views.get(kind)
        # Views of one object share these; a copy has others.
        if not view or view._all_options is not self._all_options or view._flags is not self._flags:
            view = views[kind] = make_view(self, kind)
        return view

    monkeypatch.setattr(PipelineOptions, "view_as", remember)


def _compress_quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compress pickled DoFns in small blocks, which takes an eighth of the time."""
    quick = SimpleNamespace(
        compress=lambda pickled, compresslevel: bz2.compress(pickled, 1),  # noqa: ARG005
        decompress=bz2.decompress,
    )
    monkeypatch.setattr(cloudpickle_pickler, "bz2", quick)

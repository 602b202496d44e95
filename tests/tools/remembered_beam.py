"""What Beam and jinja2 work out anew for each of the many small jobs of the tests, once."""

import argparse
import bz2
import sys
from argparse import HelpFormatter
from collections.abc import Callable, Iterator
from functools import cache
from types import FunctionType, MethodType, SimpleNamespace
from typing import Any
from weakref import WeakKeyDictionary

import apache_beam as beam
import jinja2
import pytest
from apache_beam.internal import cloudpickle_pickler
from apache_beam.options.pipeline_options import PipelineOptions, _BeamArgumentParser
from apache_beam.runners.worker import statecache
from apache_beam.transforms import core, userstate
from apache_beam.typehints import decorators


@pytest.fixture(scope="session", autouse=True)
def remembered_beam() -> Iterator[None]:
    """Halve the time in which Beam constructs and translates a pipeline.

    In a small job, this takes longer than all else.
    """
    with pytest.MonkeyPatch.context() as monkeypatch:
        _remember_specs(monkeypatch)
        _remember_signatures(monkeypatch)
        _remember_views(monkeypatch)
        # Each of the hundreds of options would ask for the width of a terminal for its help.
        formatter = HelpFormatter("tests")
        monkeypatch.setattr(_BeamArgumentParser, "_get_formatter", lambda _: formatter)
        # Each parser would look on the disk for translations of its words.
        monkeypatch.setattr(argparse, "_", str)
        # Else, all modules are passed over for each side input, to weigh it in a cache.
        monkeypatch.setattr(statecache, "get_deep_size", sys.getsizeof)
        _compress_quickly(monkeypatch)
        _remember_templates(monkeypatch)
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


def _remember_signatures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Inspect each function once, and each method once for all objects of its class."""
    remember = _once_a_function(decorators.get_signature)
    for module in (decorators, core):
        monkeypatch.setattr(module, "get_signature", remember)
    hints = decorators.IOTypeHints
    monkeypatch.setattr(hints, "from_callable", _once_a_function(hints.from_callable))
    # With types, Beam keeps the text of the stack of calls that declared them.
    monkeypatch.setattr(hints, "_make_origin", lambda *_, **__: [])
    # It looks in the source for functions that both yield and return.
    check_body = _once_a_function(core._check_fn_use_yield_and_return)
    monkeypatch.setattr(core, "_check_fn_use_yield_and_return", check_body)


def _once_a_function(find: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Remember what is found of functions, and of methods."""
    find_once = cache(find)
    find_bound_once = cache(lambda function: find(MethodType(function, object())))

    def remember(function: Any) -> Any:
        if isinstance(function, FunctionType):
            return find_once(function)
        if isinstance(function, MethodType) and isinstance(function.__func__, FunctionType):
            return find_bound_once(function.__func__)
        return find(function)

    return remember


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
    # Each look at an option would list all that its object has, and sort it.
    monkeypatch.setattr(
        PipelineOptions, "_visible_option_list", lambda self: vars(self._visible_options)
    )


def _compress_quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compress pickled DoFns in small blocks, which takes an eighth of the time."""
    quick = SimpleNamespace(
        compress=lambda pickled, compresslevel: bz2.compress(pickled, 1),  # noqa: ARG005
        decompress=bz2.decompress,
    )
    monkeypatch.setattr(cloudpickle_pickler, "bz2", quick)


def _remember_templates(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compile each template of a file once, not for each card and page."""
    compile_template = jinja2.Environment.compile
    known: dict[tuple[Any, ...], Any] = {}

    def remember(environment: jinja2.Environment, source: Any, *names: Any) -> Any:
        key = (type(environment), source, *names)
        if not names or key not in known:
            known[key] = compile_template(environment, source, *names)
        return known[key]

    monkeypatch.setattr(jinja2.Environment, "compile", remember)

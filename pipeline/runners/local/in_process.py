"""Runs a pipeline in this process, without the protos, coders and bundles of Beam's runners.

FnApiRunner translates our graph, and encodes what goes from stage to stage; for a small corpus both
take longer than the work itself. Here the transforms are called as they stand in the graph. It
knows what our graphs have: Impulse, ParDo with side inputs, Flatten, GroupByKey, Reshuffle and what
is composed of them, in the global window, without states, timers and splittable DoFns.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

import apache_beam as beam
from apache_beam.internal.util import insert_values_in_args
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.pipeline import AppliedPTransform, PipelineVisitor
from apache_beam.runners.runner import PipelineResult, PipelineRunner, PipelineState
from apache_beam.transforms import userstate
from apache_beam.transforms.core import get_function_arguments
from apache_beam.transforms.window import GlobalWindow
from apache_beam.utils.timestamp import MIN_TIMESTAMP
from apache_beam.utils.windowed_value import WindowedValue

from corpusmill.console.compilation import say_that_kernels_are_compiled
from pipeline.console.progress import repeat
from pipeline.runners.beam_pipelines import new_pipeline
from pipeline.runners.engine import Run
from transforms.tally import shown_here

PROGRESS_SECONDS = 0.5

_Receiver = Callable[[Any], None]


class _Step:
    """A transform that is run: it takes elements, and passes its results on.

    Args:
        applied: the transform in its graph.
        receivers: those who take each collection's elements.
    """

    def __init__(
        self, applied: AppliedPTransform, receivers: Mapping[beam.PCollection, list[_Receiver]]
    ) -> None:
        self._applied, self._receivers = applied, receivers

    def emit(self, element: Any, tag: str | None = None) -> None:
        """Pass an element on to all that read the output with this tag."""
        output = self._applied.outputs.get(tag)
        for receive in self._receivers[output] if output else ():
            receive(element)

    def receive(self, element: Any) -> None:
        """Take an element; by default it is passed on at once."""
        self.emit(element)

    def finish(self) -> None:
        """Pass on what is left, as all input has been received."""


class _ImpulseStep(_Step):
    def finish(self) -> None:
        self.emit(b"")


class _ReshuffleStep(_Step):
    """Holds its input back: what comes after it sees the end of what comes before."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._held: list[Any] = []

    def receive(self, element: Any) -> None:
        self._held.append(element)

    def finish(self) -> None:
        held, self._held = self._held, []
        for element in held:
            self.emit(element)


class _GroupStep(_Step):
    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._groups: Mapping[Any, list[Any]] = defaultdict(list)

    def receive(self, element: Any) -> None:
        key, value = element
        self._groups[key].append(value)

    def finish(self) -> None:
        groups, self._groups = self._groups, {}
        for group in groups.items():
            self.emit(group)


class _ParDoStep(_Step):
    """Calls a DoFn; one with side inputs holds its input back until these are whole."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._held: list[Any] = []
        self._sides: list[list[Any]] = []
        for side in self._applied.side_inputs:
            values: list[Any] = []
            self._sides.append(values)
            self._receivers[side.pvalue].append(values.append)
        self._process: Callable[[Any], Iterable[Any] | None] | None = None

    def receive(self, element: Any) -> None:
        if self._sides:
            self._held.append(element)
        else:
            self._call(element)

    def finish(self) -> None:
        held, self._held = self._held, []
        for element in held:
            self._call(element)
        if self._process:
            function = self._applied.transform.fn
            self._pass_on(function.finish_bundle())
            function.teardown()

    def _call(self, element: Any) -> None:
        self._process = self._process or self._begin()
        self._pass_on(self._process(element))

    def _begin(self) -> Callable[[Any], Iterable[Any] | None]:
        transform = self._applied.transform
        views = [
            type(side)._from_runtime_iterable(values, side._view_options())
            for side, values in zip(self._applied.side_inputs, self._sides, strict=True)
        ]
        arguments, keywords = insert_values_in_args(transform.args, transform.kwargs, views)
        keywords |= self._list_parameters()
        transform.fn.setup()
        transform.fn.start_bundle()
        process = transform.fn.process
        return lambda element: process(element, *arguments, **keywords)

    def _list_parameters(self) -> dict[str, Any]:
        """Return what Beam passes to `process` for parameters such as `DoFn.WindowParam`."""
        names, defaults = get_function_arguments(self._applied.transform.fn, "process")
        parameters = {
            name: default
            for name, default in zip(reversed(names), reversed(defaults), strict=False)
            if isinstance(default, type(beam.DoFn.TimestampParam))
        }
        for parameter in parameters.values():
            if parameter not in _PARAMETERS:
                raise NotImplementedError(f"{self._applied.full_label}: {parameter}")
        return {name: _PARAMETERS[parameter] for name, parameter in parameters.items()}

    def _pass_on(self, results: Iterable[Any] | None) -> None:
        for result in results or ():
            if isinstance(result, beam.pvalue.TaggedOutput):
                self.emit(result.value, result.tag)
            else:
                self.emit(result.value if isinstance(result, WindowedValue) else result)


# All elements are in one window, and have no time.
_PARAMETERS = {
    beam.DoFn.TimestampParam: MIN_TIMESTAMP,
    beam.DoFn.WindowParam: GlobalWindow(),
}

_STEPS: Mapping[type[beam.PTransform], type[_Step]] = {
    beam.Impulse: _ImpulseStep,
    beam.Flatten: _Step,
    beam.Reshuffle: _ReshuffleStep,
    beam.GroupByKey: _GroupStep,
    beam.ParDo: _ParDoStep,
}


class _Primitives(PipelineVisitor):
    """Collects the transforms that are run, each after those that it reads from."""

    def __init__(self) -> None:
        self.found: list[AppliedPTransform] = []
        self._within: AppliedPTransform | None = None

    def enter_composite_transform(self, node: AppliedPTransform) -> None:
        if self._within is None and isinstance(node.transform, beam.Reshuffle):
            self.found.append(node)
            self._within = node

    def leave_composite_transform(self, node: AppliedPTransform) -> None:
        if node is self._within:
            self._within = None

    def visit_transform(self, node: AppliedPTransform) -> None:
        # Some composites hand on their input, and have no parts.
        passes_on = set(node.outputs.values()) <= set(node.inputs)
        if self._within is None and not passes_on:
            self.found.append(node)


class _Done(PipelineResult):
    def wait_until_finish(self, duration: int | None = None) -> str:  # noqa: ARG002
        return str(self.state)


class InProcessRunner(PipelineRunner):
    """A Beam runner that calls the transforms of a pipeline in this thread.

    Elements go from ParDo to ParDo as they come. What a GroupByKey, a Reshuffle or a side input
    waits for is held in memory.
    """

    def run_pipeline(self, pipeline: beam.Pipeline, options: PipelineOptions) -> PipelineResult:  # noqa: ARG002
        """Run a pipeline to its end.

        Raises:
            NotImplementedError: it has a transform of a kind that this runner does not know.
            Exception: whatever a transform raises.
        """
        visitor = _Primitives()
        pipeline.visit(visitor)
        receivers: dict[beam.PCollection, list[_Receiver]] = defaultdict(list)
        steps = []
        for applied in visitor.found:
            step = _make_step(applied, receivers)
            for collection in applied.main_inputs.values():
                receivers[collection].append(step.receive)
            steps.append(step)
        # Each one comes after those that it reads from, so that it has received all when it is
        # told to finish.
        for step in steps:
            step.finish()
        return _Done(PipelineState.DONE)


def _make_step(
    applied: AppliedPTransform, receivers: Mapping[beam.PCollection, list[_Receiver]]
) -> _Step:
    for kind, step in _STEPS.items():
        if isinstance(applied.transform, kind):
            return step(applied, receivers)
    raise NotImplementedError(f"{applied.full_label}: {type(applied.transform).__name__}")


def run_in_process(run: Run, arguments: Sequence[str]) -> None:
    """Run a job in this process to its end.

    Args:
        run: the run.
        arguments: options for Beam.
    """
    run_pipeline(run, InProcessRunner(), PipelineOptions(list(arguments)))


def run_pipeline(run: Run, runner: PipelineRunner, options: PipelineOptions) -> None:
    """Build a run's pipeline, and let a runner run it to its end, while progress is counted."""
    # Each stage asks for views of the options, and Beam parses them anew for each view.
    object.__setattr__(options, "view_as", cache(options.view_as))
    before, say = shown_here(), [say_that_kernels_are_compiled]

    def look() -> None:
        run.counters.update("here", shown_here() - before)
        if say and any(worker.is_compiling for worker in run.workers):
            say.pop()()

    with _quick_graphs():
        pipeline = new_pipeline(runner=runner, options=options)
        run.build(pipeline)
        with repeat(PROGRESS_SECONDS, look):
            pipeline.run()


@contextmanager
def _quick_graphs() -> Iterator[None]:
    """Let Beam look for states and timers once in each class of stages, and not 20 times in each.

    None of our stages has any. The signatures of all methods are read for that, which takes longer
    than the rest of the graph.
    """
    look, specs = userstate.get_dofn_specs, dict[type, Any]()

    def look_once(dofn: beam.DoFn) -> Any:
        kind = type(dofn)
        if kind not in specs:
            specs[kind] = look(dofn)
        return specs[kind]

    userstate.get_dofn_specs = look_once
    try:
        yield
    finally:
        userstate.get_dofn_specs = look

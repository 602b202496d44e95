"""The builds by which an image gets its kernels have every objective, preset and format."""

from collections import defaultdict

import pytest

from corpusmill.commands.command_line import parse
from corpusmill.formats.shard_formats import FORMATS
from corpusmill.objectives.registry import OBJECTIVES
from deploy.compile_kernels import VOCABULARIES, list_builds
from pipeline.command_line import JOB
from pipeline.job_options import Build
from tests.tools.jobs import last_wins

PLACES = ("--input", "text", "--tokenizer", "tokenizer.json", "--output", "out")


@pytest.mark.parametrize("entries", VOCABULARIES)
def test_every_objective_and_format_is_built(entries: int) -> None:
    built, formats = defaultdict(list), set()
    for name, _, flags in list_builds(entries):
        _, command, _ = parse([name, *map(str, last_wins(*PLACES, *flags))], JOB)
        assert isinstance(command, Build)
        built[name].append(command.objective)
        formats.add(command.output_options.output_format)
    assert built.keys() == set(OBJECTIVES.names)
    assert formats == {*FORMATS.names} - ({"nanogpt"} if entries > 2**16 else set())
    for name in OBJECTIVES.names:
        options = OBJECTIVES[name]
        for preset in options.presets:
            assert options.from_preset(preset, max_seq_length=64) in built[name]

"""The stages of builds on paper: they are those of the job, and none exceeds its bound at 50 TB."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from benchmarks.scale.stage_sizes import StageSize
from benchmarks.scale.stages import MOST_MEMORY_BYTES, MOST_REFERENCES, MOST_SECONDS, measure_stages
from corpusmill.corpus.filters.functions import FilterOptions
from corpusmill.objectives.bert import BertOptions
from pipeline.commands.builds import make_command
from pipeline.commands.inspect_corpus import InspectCorpus
from pipeline.job_options import CorpusOptions, RunOptions
from tests.tools.jobs import build, train
from tests.tools.knobs import knobs
from transforms.build import ShardDoFn
from transforms.recovery import Journal
from transforms.shuffle.segments import MergeDoFn

_RUN = RunOptions(workers=1)
_TB = 10**12


_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "<|endoftext|>")


@pytest.fixture(scope="module")
def large_tokenizer(sample: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tokenizer whose tokens are as long as those that people train with."""
    path = tmp_path_factory.mktemp("tokenizer") / "tokenizer.json"
    train(sample, path, "--vocab-size", "8000", "--special-tokens", *_TOKENS)
    return path


def test_no_call_of_a_large_build_exceeds_its_bound(sample: Path, large_tokenizer: Path) -> None:
    corpus = CorpusOptions(input=(str(sample),), tokenizer=str(large_tokenizer))
    once = {"objective": BertOptions(duplicates=1)}
    distinct = {"filters": FilterOptions(drop_duplicates=True)}
    exceeded: dict[tuple[str, int, str], StageSize] = {}
    for objective, flags, sizes in (
        ("bert", distinct, (_TB, 10 * _TB)),
        ("gpt", {"filters": FilterOptions(drop_near_duplicates=0.8)}, (_TB // 2,)),
        ("bert", once, (50 * _TB,)),
        ("gpt", {}, (10 * _TB, 50 * _TB)),
    ):
        options = make_command(InspectCorpus, objective)(dataset=corpus, run=_RUN, **flags)
        for size, large in zip(sizes, measure_stages(options, sizes), strict=True):
            assert large.manifest_bytes < 100 * 10**6
            assert large.worker_bytes < 2**29
            exceeded |= {
                (objective, size, stage.name): stage
                for stage in large.stages
                if stage.seconds > MOST_SECONDS
                or stage.memory_bytes > MOST_MEMORY_BYTES
                or stage.references > MOST_REFERENCES
                # In a second an object store serves thousands of requests.
                or stage.requests > 200 * 10**6
                or stage.shuffled_bytes > 40 * 10**9
            }
    assert exceeded == {}


def test_the_stages_are_those_of_the_job(
    sample: Path, tokenizer_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    units, once = Counter[str](), Journal.once
    references = Counter[str]()
    process: dict[Any, Any] = {MergeDoFn: MergeDoFn.process, ShardDoFn: ShardDoFn.process}

    def count_once(journal: Journal, name: str, *rest: Any) -> Any:
        units[name.partition("-")[0]] += 1
        return once(journal, name, *rest)

    def count_references(stage: Any, element: Any, *rest: Any) -> Any:
        kind, (key, segments) = type(stage), element
        segments = [segment for segment in segments if segment.path]
        references[kind.__name__] = max(references[kind.__name__], len(segments))
        return process[kind](stage, (key, segments), *rest)

    for shards in (3, 24):
        # 24 shards then need two levels of files, and 3 do not.
        run = RunOptions(workers=1, range_bytes=10_000)
        dataset = CorpusOptions(
            input=(str(sample),), tokenizer=str(tokenizer_path), num_shards=shards
        )
        options = make_command(InspectCorpus, "bert")(
            dataset=dataset, run=run, objective=BertOptions(duplicates=4, max_seq_length=64)
        )
        with knobs(smallest_segment_bytes=4 * 2**20):
            [planned] = measure_stages(options, [sample.stat().st_size])
        stages = {stage.name.partition(",")[0]: stage for stage in planned.stages}
        units.clear()
        references.clear()
        with monkeypatch.context() as patch, knobs(smallest_segment_bytes=4 * 2**20):
            patch.setattr(Journal, "once", count_once)
            for kind in process:
                patch.setattr(kind, "process", count_references)
            flags = ("--num-shards", str(shards), "--range-bytes", "10000", "--duplicates", "4")
            build([sample], tokenizer_path, tmp_path / str(shards), *flags)
        for name, unit in {"prepare": "task", "draw pool": "pool", "build shards": "shard"}.items():
            assert stages[name].calls == units[unit]
        assert references["ShardDoFn"] <= stages["build shards"].references
        assert (units["merge"] > 0) == (shards == 24)
        if shards == 24:
            assert stages["merge documents"].calls == units["merge"]
            assert references["MergeDoFn"] == stages["merge documents"].references

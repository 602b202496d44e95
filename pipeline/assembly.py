"""From a recipe to a job: all that is known before the first record is read."""

from collections.abc import Iterator

from corpusmill.dataset.accounting import Expected
from corpusmill.dataset.manifest import TOKENIZER, Manifest
from corpusmill.formats.shard_formats import FORMATS
from pipeline.folders.run_folder import record_path
from pipeline.graph import Job
from pipeline.recipe.inputs import cut_files
from pipeline.recipe.recipe import Recipe
from pipeline.runners.engine import Engine
from transforms.commit.contents import CommitOptions
from transforms.corpus.duplicates import StoredPassages
from transforms.corpus.plan import Plan, write_plan
from transforms.corpus.prepare import Tokenizing
from transforms.elements import FILE_BYTES, PlannedRange, group_ranges
from transforms.recovery import Workplace
from transforms.shard_files import FileNames
from transforms.shuffle.segments import Routes, plan_routes
from transforms.storage.file_systems import join_path
from transforms.storage.files import write_file
from transforms.task_sizes import TaskSizes

# An estimate: a token for four or five bytes of text.
_TOKENS_PER_TEXT_BYTE = 0.25


def assemble_job(
    recipe: Recipe,
    engine: Engine,
    place: Workplace,
    range_bytes: int | None = None,
    max_rejects: float | None = None,
    strict: bool = False,
) -> Job:
    """Make all that the graph is built from, and write plan and tokenizer where workers find them.

    Args:
        recipe: what the data set is made of.
        engine: where the job runs, which decides how long the ranges are.
        place: where the run works.
        range_bytes: the longest range; None where the engine chooses it.
        max_rejects: how many rejects are allowed, as `DatasetOptions` has it.
        strict: whether a data set with findings is refused.
    """
    range_bytes = range_bytes or choose_range_bytes(recipe, engine)
    header, folder, evaluation = recipe.header, place.temp_folder, recipe.evaluation
    names = name_files(recipe, place.version, header)
    tokenizing = _write_tokenizer(recipe, folder)
    plan = write_plan(join_path(folder, "plan.jsonl"), cut_tasks(recipe, range_bytes))
    return Job(
        objective=recipe.objective,
        plan=plan,
        range_bytes=range_bytes,
        documents=recipe.reading,
        filters=recipe.filters,
        passages=evaluation
        and StoredPassages.write(join_path(folder, "evaluation"), evaluation[0].encode()),
        tokenizing=tokenizing,
        corpus_bytes=recipe.text_bytes,
        routes=choose_routes(recipe, place.sizes, plan.tasks),
        output_options=recipe.output,
        place=place,
        header=header,
        sources=tuple(source.name for source in recipe.sources),
        commit=CommitOptions(
            place=place,
            tokenizer_path=tokenizing.path,
            record_path=record_path(place),
            expected=_expect(recipe, plan),
            max_rejects=max_rejects,
            strict=strict,
            is_awaited=engine.options.wait,
            tasks=plan.tasks,
        ),
        names=names,
    )


def name_files(recipe: Recipe, version: int, header: Manifest) -> FileNames:
    """Return how the files of a data set are named.

    Args:
        recipe: what the data set is made of.
        version: number of the version.
        header: the manifest without its results.
    """
    shard_format = FORMATS[recipe.output.output_format]
    return FileNames(
        version,
        recipe.layout,
        shard_format.suffixes(recipe.output),
        shard_format.joined,
        recipe.output.shard_name,
        tuple(source.name for source in recipe.sources),
        header.provenance.generations[-1] if header.provenance else None,
    )


def choose_range_bytes(recipe: Recipe, engine: Engine) -> int:
    """Return the length of the longest range, which is less where documents are tiny."""
    longest = engine.choose_range_bytes(recipe.input_bytes + FILE_BYTES * len(recipe.files))
    return longest if engine.options.range_bytes else round(longest / recipe.document_weight)


def cut_tasks(recipe: Recipe, range_bytes: int) -> Iterator[list[PlannedRange]]:
    """Yield the ranges of each task."""
    first = recipe.first_file
    ranges = cut_files(recipe.files, recipe.reading, range_bytes, first)
    for task in group_ranges(ranges, [file.cost for file in recipe.files], range_bytes):
        yield [part._replace(file_index=first + part.file_index) for part in task]


def choose_routes(recipe: Recipe, sizes: TaskSizes, tasks: int) -> Routes:
    """Return how documents reach their shards, by the number of tasks and the sizes of these."""
    tokens = recipe.text_bytes * _TOKENS_PER_TEXT_BYTE
    return plan_routes(
        sizes,
        recipe.layout,
        recipe.dataset.validation_share,
        recipe.objective.repeats,
        tasks,
        round(tokens * recipe.token_dtype.itemsize),
    )


def _write_tokenizer(recipe: Recipe, folder: str) -> Tokenizing:
    tokenizer, grouping = recipe.tokenizer, recipe.documents.grouping
    has_facts = recipe.header.provenance is not None or grouping is not None
    path = join_path(folder, TOKENIZER)
    write_file(path, tokenizer.json.encode())
    return Tokenizing(
        path=path,
        sha256=tokenizer.digest,
        token_dtype=recipe.token_dtype.name,
        memoize=recipe.memoize,
        special_tokens_in_text=tokenizer.options.special_tokens_in_text,
        words=recipe.objective.words,
        cuts=recipe.objective.text_cuts(recipe.dataset.seed),
        keep_fields=recipe.documents.keep_fields if has_facts else (),
        facts=has_facts,
        grouping=grouping,
    )


def _expect(recipe: Recipe, plan: Plan) -> Expected:
    """Return what the counts of the stages must add up to."""
    files = recipe.files
    is_exact = all(file.content.is_in_ranges for file in files)
    read_bytes = sum(file.bytes for file in files) if is_exact else -1
    return Expected(plan.ranges, read_bytes, recipe.layout.shards, recipe.objective.repeats)

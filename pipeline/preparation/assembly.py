"""From a recipe to a job: all that is known before the first record is read."""

from dataclasses import replace

from apache_beam.io.filesystems import FileSystems

from corpusmill.corpus.input_formats import reads_in_ranges
from corpusmill.dataset.accounting import Expected
from corpusmill.dataset.manifest import TOKENIZER
from corpusmill.errors import UserError
from corpusmill.formats.shard_formats import FORMATS
from corpusmill.layout.length_bins import LengthBin, cut_lengths
from corpusmill.tokenization.words.word_marks import marked_dtype
from pipeline.graph import Job
from pipeline.preparation.header import describe
from pipeline.preparation.inputs import sum_costs
from pipeline.preparation.recipe import Recipe
from pipeline.preparation.run_folder import RunFolder
from pipeline.runners.engine import Engine
from transforms.commit import CommitOptions
from transforms.plan import FILE_BYTES, Plan, cut_ranges, group_ranges, write_plan
from transforms.shuffle import plan_routes
from transforms.storage.files import write_file
from transforms.tokenize import Tokenizing

# An estimate: two bytes for each token, and four or five bytes of text.
_STORED_BYTES_PER_TEXT_BYTE = 0.5


def assemble_job(
    recipe: Recipe,
    engine: Engine,
    folder: RunFolder,
    max_rejects: float | None = None,
    strict: bool = False,
) -> Job:
    """Make all that the graph is built from, and write plan and tokenizer where workers find them.

    Args:
        recipe: what the data set is made of.
        engine: where the job runs, which decides how long the ranges are.
        folder: the folder of the run.
        max_rejects: how many rejects are allowed, as `DatasetOptions` has it.
        strict: whether a data set with findings is refused.

    Raises:
        UserError: the shards cannot be written as the options ask.
    """
    objective = recipe.objective
    cost = sum_costs(recipe.files) + FILE_BYTES * len(recipe.files)
    range_bytes = folder.range_bytes or engine.choose_range_bytes(cost)
    plan = _plan(recipe, range_bytes, folder.path)
    routes = plan_routes(
        recipe.layout,
        recipe.dataset.validation_share,
        objective.repeats,
        plan.tasks,
        round(recipe.text_bytes * _STORED_BYTES_PER_TEXT_BYTE),
    )
    return Job(
        objective=objective,
        plan=plan,
        range_bytes=range_bytes,
        documents=recipe.documents,
        corpus_bytes=recipe.text_bytes,
        routes=routes,
        output_options=recipe.output,
        tokenizing=_write_tokenizer(recipe, folder.path),
        place=folder.place,
        header=describe(recipe),
        commit=replace(
            _plan_commit(recipe, folder, plan, max_rejects),
            strict=strict,
            is_awaited=engine.options.wait,
        ),
    )


def _cut_bins(recipe: Recipe) -> tuple[LengthBin, ...]:
    bins = cut_lengths(recipe.objective.columns, recipe.output.bin_size)
    if bins and recipe.output.is_padded:
        raise UserError(
            f"--bin-size {recipe.output.bin_size}",
            "rows that are padded to one width have the same length in every bin (the padding of "
            f"{recipe.output.output_format} files is max_length here)",
            "Add --padding do_not_pad, or leave the flag out",
        )
    return bins


def _plan(recipe: Recipe, range_bytes: int, folder: str) -> Plan:
    in_ranges = reads_in_ranges(recipe.documents)
    files = recipe.files
    parts = [(file.path, file.name, file.bytes, file.splittable and in_ranges) for file in files]
    sizes = [file.cost for file in files]
    tasks = group_ranges(cut_ranges(parts, range_bytes), sizes, range_bytes)
    return write_plan(FileSystems.join(folder, "plan.jsonl"), tasks)


def _write_tokenizer(recipe: Recipe, folder: str) -> Tokenizing:
    tokenizer, words = recipe.tokenizer, recipe.objective.words
    # The type of the ids in documents and pool.
    dtype = marked_dtype(tokenizer.vocab_size) if words else tokenizer.token_dtype
    path = FileSystems.join(folder, TOKENIZER)
    write_file(path, tokenizer.json.encode())
    in_text = tokenizer.options.special_tokens_in_text
    return Tokenizing(path, tokenizer.digest, dtype.name, recipe.memoize, in_text, words)


def _plan_commit(
    recipe: Recipe, folder: RunFolder, plan: Plan, max_rejects: float | None
) -> CommitOptions:
    output, files = recipe.output, recipe.files
    shard_format = FORMATS[output.output_format]
    is_exact = all(file.splittable for file in files)
    read_bytes = sum(file.bytes for file in files) if is_exact else -1
    shards, repeats = recipe.layout.shards, recipe.objective.repeats
    return CommitOptions(
        place=folder.place,
        tokenizer_path=FileSystems.join(folder.path, TOKENIZER),
        record_path=folder.record_path,
        suffixes=shard_format.suffixes(output),
        joined=shard_format.joined,
        expected=Expected(plan.ranges, read_bytes, shards, repeats),
        max_rejects=max_rejects,
        bins=_cut_bins(recipe),
        shard_name=output.shard_name,
    )

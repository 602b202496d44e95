"""A data set is built again from its manifest, and the result compared."""

from rich.console import Console

from corpusmill.commands.build_command import folder_of
from corpusmill.commands.command import Call
from corpusmill.console.process import FAILURE
from corpusmill.dataset.manifest import MANIFEST, Manifest
from corpusmill.dataset.shards import open_data_set, read_tokenizer
from corpusmill.errors import UserError
from pipeline.commands.build_dataset import log_end, run_build
from pipeline.commands.rebuild import Rebuild
from pipeline.options import DatasetOptions
from pipeline.preparation.inputs import absolute
from pipeline.preparation.rebuilding import Rebuilding, compare_entries


def rebuild(command: Rebuild, call: Call) -> int:
    """Build a data set again, and say whether it is the same.

    Returns:
        0 if every shard has the same digest, and 1 if not.

    Raises:
        UserError: there is no such data set, or the input is not its own.
    """
    if not command.run.wait:
        cause = "the digests can only be compared when the job has ended"
        raise UserError("rebuild --no-wait", cause, "Leave it out")
    place = folder_of(command.data_set)
    if absolute(place).rstrip("/") == absolute(command.output).rstrip("/"):
        cause = "it is the data set that is built again"
        raise UserError(f"--output {command.output}", cause, "Give another folder")
    folder, manifest = open_data_set(call.files.open_folder(place))
    if manifest.provenance and len(manifest.provenance.generations) > 1:
        cause = f"text was added to it {len(manifest.provenance.generations) - 1} times"
        cure = "Build its first part, and add the others with --append"
        raise UserError(command.data_set, cause, cure)
    if manifest.removals:
        cause = f"rows were removed from it after the build ({manifest.removals[0].reason})"
        raise UserError(command.data_set, cause, "Build it, and remove them from the result")
    rebuilding = Rebuilding(manifest, read_tokenizer(folder, manifest))
    dataset = _choose_data_set(command, rebuilding)
    options = rebuilding.make_build(dataset, command.drop_overlap_with, command.run, command.log)
    if not run_build(options, call, rebuilding.prepare):
        return 0
    again, _ = log_end(command.output)
    call.console.print(f"the data set is in {command.output}")
    return _compare(rebuilding, again, f"{place}/{MANIFEST}", call.console)


def _choose_data_set(command: Rebuild, rebuilding: Rebuilding) -> DatasetOptions:
    manifest = rebuilding.manifest
    sources = rebuilding.complete_sources(command.source)
    inputs = command.input or (() if sources else rebuilding.list_hub_inputs())
    if not inputs and not sources:
        first = manifest.corpus.files[0].path if manifest.corpus.files else "none"
        cause = f"the manifest does not tell where the {len(manifest.corpus.files):,} files are"
        raise UserError("--input", cause, f"Give the input, whose first file is {first}")
    filtering = manifest.corpus.filtering
    has_evaluation = bool(filtering and filtering.evaluation)
    if has_evaluation != bool(command.drop_overlap_with):
        cause = "documents were compared with an evaluation set, which the manifest does not hold"
        if has_evaluation:
            raise UserError("--drop-overlap-with", cause, "Give its files")
        cause = "documents were not compared with an evaluation set"
        raise UserError("--drop-overlap-with", cause, "Leave it out")
    return DatasetOptions(
        input=inputs,
        source=sources,
        tokenizer=manifest.tokenizer.name,
        num_shards=manifest.output.num_shards,
        order=manifest.output.order or "shuffled",
        seed=manifest.seed,
        validation_share=manifest.output.validation_share,
        output=command.output,
        replace=command.replace,
        resume=command.resume,
    )


def _compare(rebuilding: Rebuilding, again: Manifest, name: str, console: Console) -> int:
    before = rebuilding.manifest
    different = compare_entries(before, again)
    shards = [shard for split in before.splits.values() for shard in split.shards]
    if not different:
        size = sum(shard.bytes for shard in shards)
        is_whole = before == again
        rest = ", and the manifests are equal" if is_whole else ""
        console.print(
            f"equal: all {len(shards):,} shards ({size:,} bytes) have the digests of {name}{rest}"
        )
        return 0
    console.print(
        f"different: {len(different):,} of the files of {len(shards):,} shards do not have the "
        f"digests of {name}, such as {different[0]}"
    )
    for cause in rebuilding.find_causes(again) or ["no cause was found"]:
        console.print(f"possible cause: {cause}")
    return FAILURE

"""What each command does. The dataclasses are the command line: their docstrings are its help."""

from apache_beam.io.filesystems import FileSystems
from rich.console import Console

from corpusmill.dataset.manifest import SUCCESS, Manifest
from corpusmill.dataset.shards import read_manifest
from corpusmill.formats.shard_names import check_splits
from corpusmill.inspection.figures import summarize
from corpusmill.tokenization.sources.read import read_tokenizer
from corpusmill.tokenization.words.words import load_words
from pipeline.commands.builds import Build
from pipeline.console.progress import Work
from pipeline.console.run_log import log_event
from pipeline.console.terminal_report import print_inspection
from pipeline.graph import build_dataset
from pipeline.preparation.assembly import assemble_job, estimate_read_bytes
from pipeline.preparation.beam_folder import BeamFolder
from pipeline.preparation.inputs import choose_format, list_inputs, read_bytes, say_hub_files
from pipeline.preparation.output import check_output
from pipeline.preparation.probe import prove_tokenizer, read_probe
from pipeline.preparation.run_folder import RunFolder, refuse_a_living_run, run_folder, say_finished
from pipeline.runners.launch import prepare_launch
from transforms.recovery.journal import count_finished


def build(command: Build, beam_arguments: tuple[str, ...], console: Console) -> int:
    """Build a data set, and say where it is and what is in it."""
    dataset = command.dataset
    launch = prepare_launch(
        command.run, beam_arguments, dataset.input, dataset.output, console, command.log
    )
    pattern = command.output_options.shard_name
    check_splits(pattern, dataset.validation_share > 0)
    refuse_a_living_run(dataset.output)
    stale = check_output(dataset.output, dataset.replace, pattern, dataset.resume)
    asked = command.objective.choose_documents(command.documents)
    tokenizer = read_tokenizer(dataset.tokenizer, read_bytes, command.tokenizer_options)
    words = load_words(command.objective.bind(tokenizer).words)
    with run_folder(dataset.output, command.run.temp_location, dataset.resume) as folder:
        files = list_inputs(dataset.input, folder.path, asked.suffixes)
        say_hub_files(files, console)
        documents = choose_format(files, asked, console)
        job = assemble_job(
            command.objective,
            tokenizer,
            documents,
            dataset,
            command.output_options,
            launch,
            files,
            folder,
            memoize=prove_tokenizer(tokenizer, read_probe(files, documents), console, words),
        )
        folder.begin(job.header, job.layout, job.range_bytes, files, stale)
        if dataset.resume:
            _say_what_is_finished(folder, console)
        work = Work(
            estimate_read_bytes(files), job.objective.repeats, job.plan.tasks, job.layout.shards
        )
        submitted = launch.run(job, build_dataset, work)
        folder.handed_over = not (submitted.done or submitted.dry)
    if submitted.dry:
        console.print("a dry run: the job was translated and checked, and nothing was submitted")
        return 0
    if not submitted.done:
        success = FileSystems.join(dataset.output, SUCCESS)
        said = f"submitted; the data set is complete once {success} is there"
        console.print(said, markup=False, soft_wrap=True)
        return 0
    console.print(f"the data set is in {dataset.output}")
    manifest = read_manifest(BeamFolder(dataset.output))
    _log_end(dataset.output, manifest)
    print_inspection(console, manifest, [], summarize(manifest))
    return 0


def _say_what_is_finished(folder: RunFolder, console: Console) -> None:
    finished = count_finished(folder.path)
    said = f"going on: finished are {say_finished(finished)}" if finished else "beginning anew"
    console.print(said, markup=False)


def _log_end(output: str, manifest: Manifest) -> None:
    splits = {
        name: {
            "rows": split.rows,
            "tokens": split.tokens,
            "shards": len(split.shards),
            "bytes": split.bytes,
        }
        for name, split in manifest.splits.items()
    }
    log_event(
        "run_finished",
        f"{manifest.rows:,} examples in {output}",
        {"status": 0, "output": output, "splits": splits, "counts": manifest.counts},
    )

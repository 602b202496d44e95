"""What each command does."""

from dataclasses import asdict, dataclass, field
from typing import Annotated

import tyro
from apache_beam.io.filesystem import BeamIOError
from apache_beam.io.filesystems import FileSystems
from rich.console import Console

from corpusmill.bert import BertOptions
from corpusmill.documents import DocumentOptions
from corpusmill.formats.parquet import ParquetOptions
from corpusmill.manifest import MANIFEST, decode
from corpusmill.tokenization import read_tokenizer
from pipeline.assembly import assemble_job, estimate_text_bytes
from pipeline.graph import build_dataset
from pipeline.inputs import absolute, list_inputs
from pipeline.options import DatasetOptions, RunOptions
from pipeline.output import check_output, temporary_folder
from pipeline.progress import Counters, show_progress
from pipeline.runners import Run, count_processes, run
from transforms.read import open_file

Flat = tyro.conf.OmitArgPrefixes


@dataclass(frozen=True)
class BuildBert:
    """Build a BERT data set: masked language model with next-sentence pairs."""

    dataset: Flat[DatasetOptions]
    bert: Flat[BertOptions] = field(default_factory=BertOptions)
    documents: Flat[DocumentOptions] = field(default_factory=DocumentOptions)
    parquet: Flat[ParquetOptions] = field(default_factory=ParquetOptions)
    run: Flat[RunOptions] = field(default_factory=RunOptions)


def read_bytes(path: str) -> bytes | None:
    """The bytes of a file of any of Beam's filesystems, None where there is none."""
    try:
        with open_file(absolute(path)) as stream:
            return stream.read()
    except (OSError, BeamIOError):
        return None


def build(command: BuildBert, beam_arguments: tuple[str, ...], console: Console) -> None:
    """Build a data set and say where it is and what is in it."""
    dataset, run_options = command.dataset, command.run
    stale = check_output(dataset.output, dataset.replace)
    tokenizer = read_tokenizer(dataset.tokenizer, read_bytes)
    with temporary_folder(dataset.output, run_options.temp_location) as temp_folder:
        files = list_inputs(dataset.input, temp_folder)
        job = assemble_job(
            command.bert, tokenizer, command.documents, dataset, command.parquet, run_options, files,
            temp_folder, stale,
        )
        counters = Counters()
        text_bytes = estimate_text_bytes(files)
        processes = count_processes(run_options.workers, text_bytes, run_options.min_bytes_per_worker)
        passes = 2 if job.objective.pool_tokens else 1
        with show_progress(counters, passes * text_bytes, run_options.progress):
            run(
                Run(
                    lambda pipeline: build_dataset(pipeline, job), run_options.runner, processes,
                    beam_arguments, counters,
                )
            )

"""The command that traces rows to their documents, and documents to their rows."""

from dataclasses import dataclass
from typing import Annotated

from corpusmill.commands.command import Command
from corpusmill.errors import UserError, option
from corpusmill.settings.constraints import CheckedOptions, Needs, Range
from corpusmill.settings.options import Positional

# The options that say what is traced; one of them must be given.
_STARTS = ("row", "step", "state", "document", "file", "where")

_NUMBERS = Range(0, 2**63 - 1)


@dataclass(frozen=True)
class Trace(CheckedOptions):
    """Trace rows, or a step of training, to documents and their text; and documents to rows."""

    folder: Positional
    """The data set."""
    split: str = "train"
    """The split whose rows or steps are traced."""
    row: tuple[int, ...] = ()
    """Trace rows by their numbers in the split, from 0; with --shard by their numbers in it, and
    with --context-len or --max-seq-length those of windows or packed rows."""
    shard: Annotated[
        str | None, Needs("row"), Needs("context_len", None), Needs("max_seq_length", None)
    ] = None
    """The shard of --row: its number among the split's shards, from 0, or its file name."""
    step: Annotated[int | None, Needs("batch_size")] = None
    """Trace all rows that a step of training read, counted from 0 in its epoch. The next options
    say how the run read; they are those of the reader."""
    state: Annotated[str | None, Needs("batch_size")] = None
    """Trace the step that a reader had read last when its state_dict was saved to this file, as
    JSON or by torch.save; seed, epoch and order are those of the state."""
    seed: int = 0
    """The seed of the run's order."""
    epoch: Annotated[int, _NUMBERS] = 0
    """The epoch, from 0."""
    batch_size: Annotated[int | None, Range(1)] = None
    """Samples of a rank in a step."""
    world_size: int = 1
    """The number of ranks."""
    rank: int | None = None
    """Trace what this rank read; by default all ranks."""
    shuffle: bool = True
    """Whether the run shuffled."""
    window: int = 2**17
    """The window of the run's order."""
    lanes: int = 1
    """The lanes of the run's order."""
    drop_last: bool = False
    """Whether the run left out an epoch's last, smaller batch."""
    context_len: int | None = None
    """The length of the run's windows of a token stream."""
    stride: int | None = None
    """The distance of these windows; by default their length."""
    max_seq_length: Annotated[int | None, Needs("context_len", None)] = None
    """The length of the run's packed rows of a token stream."""
    packs_file: Annotated[str | None, Needs("max_seq_length")] = None
    """The file of these packs; by default the one in the folder of unpacked shards."""
    document: Annotated[tuple[int, ...], Range(0, 2**64 - 1)] = ()
    """Find all rows that hold text of documents, by their ids. With --batch-size also the steps of
    --epoch that read these rows."""
    file: Annotated[str | None, Needs("offset")] = None
    """Likewise for the document at --offset of this file of the corpus."""
    offset: Annotated[int | None, _NUMBERS, Needs("file")] = None
    """A byte of --file, after decompression; in tables the number of a row."""
    where: str | None = None
    """Likewise for all documents for which a condition of SQL is true, over document, file, source,
    split, place, length, tokens, digest and the kept fields: "url LIKE '%example%'". This needs
    duckdb."""
    input: tuple[str, ...] = ()
    """Where the corpus is now, as --input of the build, to read texts from; by default the present
    folder."""
    text: bool = True
    """Read the text of the rows."""
    json: bool = False
    """Print JSON, a line for each row, with all texts whole."""
    limit: Annotated[int, _NUMBERS] = 20
    """The most rows that are printed; 0 prints all."""

    def check(self) -> None:
        """Check that the values go together.

        Raises:
            UserError: it is not clear what to trace, or its steps are not looked up.
        """
        starts = [name for name in _STARTS if getattr(self, name) not in (None, ())]
        if len(starts) != 1:
            flags = ", ".join(f"--{name}" for name in _STARTS)
            cause = "it is not clear what to trace" if starts else "nothing says what to trace"
            value = " ".join(f"--{name}" for name in starts) or self.folder
            example = f"`corpusmill trace {self.folder} --row 0`"
            raise UserError(value, cause, f"Give one of {flags}, as in {example}")
        if self.cuts and self.batch_size and (self.document or self.file or self.where):
            cause = "in which windows or packed rows a document stands is not looked up"
            raise UserError(option(self.cuts[0]), cause, "Leave it out, or trace a step")

    @property
    def cuts(self) -> list[str]:
        """The options that say how a run cut a token stream."""
        names = ("context_len", "max_seq_length")
        return [name for name in names if getattr(self, name) is not None]


COMMAND = Command(Trace, "corpusmill.commands.tracing:trace")

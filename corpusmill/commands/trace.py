"""The command that traces rows to their documents, and documents to their rows."""

from dataclasses import dataclass

from corpusmill.commands.command import Command
from corpusmill.errors import UserError, check_option, option
from corpusmill.settings.options import Positional

# The options that say what is traced; one of them must be given.
_STARTS = ("row", "step", "state", "document", "file", "where")


@dataclass(frozen=True)
class Trace:
    """Trace rows, or a step of training, to documents and their text; and documents to rows."""

    folder: Positional
    """The data set."""
    split: str = "train"
    """The split whose rows or steps are traced."""
    row: tuple[int, ...] = ()
    """Trace rows by their numbers in the split, from 0; with --shard by their numbers in it, and
    with --context-len or --max-seq-length those of windows or packed rows."""
    shard: str | None = None
    """The shard of --row: its number among the split's shards, from 0, or its file name."""
    step: int | None = None
    """Trace all rows that a step of training read, counted from 0 in its epoch. The next options
    say how the run read; they are those of the reader."""
    state: str | None = None
    """Trace the step that a reader had read last when its state_dict was saved to this file, as
    JSON or by torch.save; seed, epoch and order are those of the state."""
    seed: int = 0
    """The seed of the run's order."""
    epoch: int = 0
    """The epoch, from 0."""
    batch_size: int | None = None
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
    max_seq_length: int | None = None
    """The length of the run's packed rows of a token stream."""
    packs_file: str | None = None
    """The file of these packs; by default the one in the folder of unpacked shards."""
    document: tuple[int, ...] = ()
    """Find all rows that hold text of documents, by their ids. With --batch-size also the steps of
    --epoch that read these rows."""
    file: str | None = None
    """Likewise for the document at --offset of this file of the corpus."""
    offset: int | None = None
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
    limit: int = 20
    """The most rows that are printed; 0 prints all."""

    def check(self) -> None:
        """Check each value, and that they go together.

        Raises:
            UserError: a value is not valid, or it is not clear what to trace.
        """
        starts = [name for name in _STARTS if getattr(self, name) not in (None, ())]
        if len(starts) != 1:
            flags = ", ".join(f"--{name}" for name in _STARTS)
            cause = "it is not clear what to trace" if starts else "nothing says what to trace"
            value = " ".join(f"--{name}" for name in starts) or self.folder
            example = f"`corpusmill trace {self.folder} --row 0`"
            raise UserError(value, cause, f"Give one of {flags}, as in {example}")
        if (self.file is None) != (self.offset is None):
            given, missing = (
                (option("file"), option("offset"))
                if self.file
                else (option("offset"), option("file"))
            )
            raise UserError(given, f"{missing} is missing", "Give both")
        if self.shard is not None and not self.row:
            raise UserError(option("shard", self.shard), f"{option('row')} is missing", "Give both")
        if (self.step is not None or self.state) and self.batch_size is None:
            flag = (
                option("step", self.step) if self.step is not None else option("state", self.state)
            )
            raise UserError(flag, "the size of batches is unknown", f"Add {option('batch_size')}")
        self._check_cut()
        self._check_numbers()

    @property
    def cuts(self) -> list[str]:
        """The options that say how a run cut a token stream."""
        names = ("context_len", "max_seq_length")
        return [name for name in names if getattr(self, name) is not None]

    def _check_cut(self) -> None:
        cuts = self.cuts
        if self.packs_file and "max_seq_length" not in cuts:
            cause = f"{option('max_seq_length')} is missing"
            raise UserError(option("packs_file", self.packs_file), cause, "Give both")
        if len(cuts) > 1:
            cause = "a run reads windows or packed rows of a stream"
            raise UserError(" ".join(map(option, cuts)), cause, "Give one of them")
        if cuts and self.shard is not None:
            cause = "windows and packed rows are numbered through all shards"
            raise UserError(option("shard", self.shard), cause, "Leave it out")
        if cuts and self.batch_size and (self.document or self.file or self.where):
            cause = "in which windows or packed rows a document stands is not looked up"
            raise UserError(option(cuts[0]), cause, "Leave it out, or trace a step")

    def _check_numbers(self) -> None:
        for name in ("limit", "epoch", "offset"):
            value = getattr(self, name) or 0
            check_option(name, value, 0 <= value < 2**63, f"0 to {2**63 - 1}")
        size = self.batch_size
        check_option("batch_size", size, size is None or size > 0, "1 or more")
        for document in self.document:
            check_option("document", document, 0 <= document < 2**64, "ids of documents")


COMMAND = Command(Trace, "corpusmill.commands.tracing:trace")

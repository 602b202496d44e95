"""Where a reported data set or corpus is, when it was written, and by which commands."""

from dataclasses import dataclass
from datetime import UTC, datetime


@dataclass(frozen=True)
class Origin:
    """What a manifest does not hold, because it belongs to a place and a run.

    Attributes:
        path: the folder of a data set; empty for a corpus.
        seconds: when it was written, or the report was made, in seconds since 1970; None where
            that is not known.
        commands: those that build the data set, one for each part that was built at a time, or
            the one that made the report; empty where they are not known.
    """

    path: str = ""
    seconds: float | None = None
    commands: tuple[str, ...] = ()

    @property
    def place(self) -> str:
        """The path and the time, as far as they are known."""
        parts = [self.path] if self.path else []
        if self.seconds is not None:
            parts.append(datetime.fromtimestamp(self.seconds, UTC).strftime("%Y-%m-%d %H:%M UTC"))
        return ", ".join(parts)

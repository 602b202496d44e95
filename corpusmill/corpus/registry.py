"""The table of input formats, each imported when it is needed."""

from typing import TYPE_CHECKING

from corpusmill.plugins import Plugins

if TYPE_CHECKING:
    from corpusmill.corpus.input_formats import CorpusFormat

_OURS = "corpusmill.corpus.input_formats"


def _adapt(value: object) -> "CorpusFormat | None":
    # Imported here because the options of a command need the names alone, at once.
    from corpusmill.corpus.input_formats import CorpusFormat  # noqa: PLC0415

    return value if isinstance(value, CorpusFormat) else None


FORMATS: "Plugins[CorpusFormat]" = Plugins(
    "corpusmill.input_formats",
    "input_format",
    {
        "text": f"{_OURS}:TEXT",
        "json-lines": f"{_OURS}:JSON_LINES",
        "json": f"{_OURS}:JSON",
        "lines": f"{_OURS}:LINES",
        "csv": f"{_OURS}:CSV",
        "tsv": f"{_OURS}:TSV",
        "tar": f"{_OURS}:TAR",
        "wet": f"{_OURS}:WET",
        "parquet": f"{_OURS}:PARQUET",
        "arrow": f"{_OURS}:ARROW",
        "avro": f"{_OURS}:AVRO",
    },
    _adapt,
    "a corpusmill.extending.CorpusFormat",
)

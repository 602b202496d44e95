"""An objective whose data set nobody could verify or read is refused before any work."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from corpusmill.arrays.columns import Column, Role
from corpusmill.errors import UserError
from corpusmill.objectives.gpt import Gpt, GptOptions
from corpusmill.tokenization.tokenizer_file import Vocabulary
from pipeline.job_options import BuildOptions, CorpusOptions
from pipeline.recipe.preparation import prepare
from tests.conftest import CHECKOUT
from tests.tools.table_rows import for_rows

TOKENS = Column("tokens", "int16", "tokens", 64, role=Role.TOKEN_IDS)


@dataclass(frozen=True)
class Changed(Gpt):
    """The objective `gpt`, with other columns or another name."""

    changes: Any = None

    @property
    def columns(self) -> tuple[Column, ...]:
        return self.changes.get("columns", super().columns)  # type: ignore[no-any-return]

    @property
    def built_columns(self) -> tuple[Column, ...]:
        return self.changes.get("built", self.columns)  # type: ignore[no-any-return]

    @property
    def name(self) -> str:  # type: ignore[override]
        return self.changes.get("name", "gpt")  # type: ignore[no-any-return]


@dataclass(frozen=True)
class ChangedOptions(GptOptions):
    changes: Any = None

    def bind(self, tokenizer: Vocabulary) -> Changed:
        return Changed(self, tokenizer.special, tokenizer.token_dtype.name, self.changes)


@for_rows(
    ("changes", "message"),
    [
        ({"name": "gtp"}, "objective gtp: no objective has this name"),
        ({"columns": (replace(TOKENS, role=Role.VALUE),)}, "could not be verified or read"),
        ({"columns": (Column("label", "int8", ""), TOKENS)}, "could not be verified or read"),
        ({"columns": (replace(TOKENS, dtype="int8"),)}, "type int8 of tokens, which lacks 599"),
        ({"columns": (replace(TOKENS, name="two words"),)}, "the column 'two words'"),
        ({"built": ()}, "no column has the role token_ids"),
        ({"built": (replace(TOKENS, name="ids"),)}, "it builds the tokens as ids"),
    ],
)
def test_it_is_refused(changes: dict[str, Any], message: str, sample: Path, tmp_path: Path) -> None:
    tokenizer = str(CHECKOUT / "tests" / "data" / "tokenizer.json")
    build = BuildOptions(
        dataset=CorpusOptions(input=(str(sample),), tokenizer=tokenizer),
        objective=ChangedOptions(mode="windows", max_seq_length=64, changes=changes),
    )
    with pytest.raises(UserError, match=message):
        prepare(build, str(tmp_path), Console(quiet=True))

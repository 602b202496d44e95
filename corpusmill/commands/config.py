"""The command that prints all options of another one as a file for `--config`."""

import json
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, Literal, get_origin

from corpusmill.commands.build_command import (
    folder_of,
    list_options,
    name_sources,
    name_tokenizer,
)
from corpusmill.commands.command import Call, Command
from corpusmill.commands.table import list_commands, load_command
from corpusmill.dataset.shards import open_data_set
from corpusmill.settings.files import BEAM
from corpusmill.settings.options import Option, Positional

Form = Literal["yaml", "toml"]

_WIDTH = 98


@dataclass(frozen=True)
class Config:
    """Print all options of a command, with their documentation and defaults, as a file.

    Or print the options with which a data set was built.
    """

    subject: Positional
    """A command such as bert, or a data set: its folder, or its dataset.json."""
    format: Form = "yaml"
    """The language of the file."""


def print_configuration(config: Config, call: Call) -> int:
    """Print the file, which goes to `--config` as it is.

    Raises:
        UserError: there is neither such a command nor such a data set.
    """
    name, values = config.subject, dict[str, Any]()
    is_command = name in {entry.name for entry in list_commands()}
    if not is_command and ("/" in name or Path(name).exists()):
        _, manifest = open_data_set(call.locate(folder_of(name)))
        name = manifest.objective.name
        # Of a data set to which text was added, the options are those of its first build.
        first = manifest.provenance.generations[0] if manifest.provenance else None
        sources = name_sources(manifest, first)
        values = {"source": sources} if sources else {"input": ["INPUT"]}
        values |= {**list_options(manifest), "tokenizer": name_tokenizer(manifest)}
    command = load_command(name, call.job)
    text = render(name, list_all(command), values, config.format)
    call.console.print(*text.splitlines(), sep="\n")
    return 0


def list_all(command: Command) -> list[Option]:
    """List the options of a command, and the word that chooses them as one more."""
    options = command.list_options()
    if not command.variants:
        return options
    hint, text = Literal[tuple(command.variants)], "What a build would make."
    return [Option("objective", hint, command.variant, lambda: text, "options", ""), *options]


def render(
    name: str, options: Sequence[Option], values: Mapping[str, Any], form: Form = "yaml"
) -> str:
    """Write options as a file.

    Args:
        name: of their command.
        options: of the command.
        values: those that are set, by name; all others are comments, with their defaults.
        form: the language of the file.
    """
    lines = [
        f"# Options of `corpusmill {name} --config FILE`. Flags on the command line win over them.",
        "# Remove the # before an option to set it.",
    ]
    for group, members in groupby(options, key=lambda option: option.group):
        lines += ["", *_comment(f"---- {group}"), ""]
        for option in members:
            lines += _comment(option.text)
            if option.choices:
                lines += _comment(f"One of {', '.join(map(str, option.choices))}.")
            lines.append(_assign(option, values, form))
    lines += ["", *_comment(_BEAM_TEXT), _BEAM_EXAMPLE[form]]
    return "\n".join(lines) + "\n"


_BEAM_TEXT = "---- Beam's own options by name, which follow after -- on the command line"
_BEAM_EXAMPLE = {
    "yaml": f'#{BEAM}: {{project: "NAME"}}',
    "toml": f'#{BEAM} = {{project = "NAME"}}',
}


def _comment(text: str) -> Iterator[str]:
    for line in textwrap.wrap(text, _WIDTH - 2, break_long_words=False, break_on_hyphens=False):
        yield f"# {line}"


def _assign(option: Option, values: Mapping[str, Any], form: Form) -> str:
    is_set = option.name in values or option.is_required
    value = values.get(option.name, option.default)
    if option.is_required and option.name not in values:
        is_list = any(get_origin(kind) is tuple for kind in option.kinds)
        value = [option.name.upper()] if is_list else option.name.upper()
    # TOML has no null. Texts, numbers and lists of JSON are those of YAML and TOML, too.
    value = "None" if value is None and form == "toml" else value
    sign = ": " if form == "yaml" else " = "
    return f"{'' if is_set else '#'}{option.name}{sign}{json.dumps(value, ensure_ascii=False)}"


COMMAND = Command(Config, print_configuration)

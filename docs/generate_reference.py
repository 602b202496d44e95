"""The pages of the commands, generated from the dataclasses that the command line is made of.

MkDocs calls `on_config` and `on_files` when it builds the site, and `on_post_build` to add
`llms.txt`, the list of all pages for programs that read (https://llmstxt.org). Run as a program,
this prints the pages of the commands: `python docs/generate_reference.py [COMMAND]`.
"""

import inspect
import os
import re
import sys
from collections.abc import Iterator
from importlib.metadata import version
from itertools import groupby
from pathlib import Path
from types import NoneType
from typing import Any, Literal, get_origin

from corpusmill.commands.table import list_commands, load_command
from corpusmill.objectives.registry import OBJECTIVES
from corpusmill.settings.options import Option, options_of
from pipeline.command_line import JOB

_FOLDER = "reference/commands"
# Some defaults are those of the machine.
_DEFAULTS = {"workers": (os.cpu_count() or 1, "number of cores")}
_KINDS = {str: "text", int: "integer", float: "number", bool: "True or False", NoneType: "None"}


def on_config(config: Any) -> Any:
    """Show the version beside the name; MkDocs calls this."""
    config["site_name"] += f" {version('corpusmill')}"
    return config


def on_files(files: Any, config: Any) -> Any:
    """Add the pages to the site; MkDocs calls this."""
    from mkdocs.structure.files import File  # noqa: PLC0415  printing needs no MkDocs

    names = [entry.name for entry in list_commands()]
    pages = {"index": render_index(), **{name: render_command(name) for name in names}}
    for name, content in pages.items():
        files.append(File.generated(config, f"{_FOLDER}/{name}.md", content=content))
    return files


def on_post_build(config: Any) -> None:
    """Write the list of pages beside the site; MkDocs calls this."""
    pages = Path(config["docs_dir"])
    Path(config["site_dir"], "llms.txt").write_text(render_page_list(pages), encoding="utf-8")


def render_page_list(folder: Path) -> str:
    """Return llms.txt: the title of each page with its address and its first sentence.

    Args:
        folder: of the pages.
    """
    first = (folder / "index.md").read_text(encoding="utf-8")
    lines = ["# corpusmill", "", f"> {_first_sentence(first)}", ""]
    for section in ("tutorials", "how-to", "reference", "explanation"):
        lines += [f"## {section.capitalize()}", ""]
        for page in sorted((folder / section).rglob("*.md")):
            text = page.read_text(encoding="utf-8")
            title = text.partition("\n")[0].removeprefix("# ")
            address = f"{page.relative_to(folder).with_suffix('').as_posix()}/".removesuffix(
                "index/"
            )
            sentence = _first_sentence(text)
            lines.append(f"- [{title}]({address}){': ' if sentence else ''}{sentence}")
        if section == "reference":
            lines += [
                f"- [{name}]({_FOLDER}/{name}/): {summary}" for name, summary, _ in list_commands()
            ]
        lines.append("")
    return "\n".join(lines)


def _first_sentence(page: str) -> str:
    """Return the first sentence of a page, without its marks; empty if there is none."""
    _, _, body = page.partition("\n\n")
    paragraph = " ".join(body.partition("\n\n")[0].split())
    if not paragraph[:1].isalnum() and paragraph[:1] not in "`*[":
        return ""
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", paragraph)
    return re.split(r"(?<=[.:])\s", plain, maxsplit=1)[0].rstrip(":")


def render_index() -> str:
    """Return the page that lists all commands."""
    lines = [
        "# Commands",
        "",
        "Each command follows `corpusmill`, or `python -m corpusmill`. `--help` shows its options,",
        "`--config FILE` takes them from a file, and `corpusmill --version` prints the versions.",
        "Commands of the job need `corpusmill-job`.",
        "",
        "`corpusmill --print-completion bash` (or `zsh`) prints a script by which the shell",
        "completes commands, options and their values:",
        "",
        "```sh",
        "corpusmill --print-completion bash > ~/.corpusmill-completion",
        "echo 'source ~/.corpusmill-completion' >> ~/.bashrc",
        "```",
        "",
        "For zsh, write it to a file `_corpusmill` in a folder of `$fpath`.",
        "",
        "| command | | part of |",
        "|---|---|---|",
    ]
    for name, summary, is_of_job in list_commands():
        package = "job" if is_of_job else "library"
        lines.append(f"| [`{name}`]({name}.md) | {summary} | {package} |")
    return "\n".join([*lines, ""])


def render_command(name: str) -> str:
    """Return the page of a command."""
    command = load_command(name, JOB)
    lines = [f"# {name}", "", inspect.getdoc(command.options) or "", ""]
    if command.variants:
        names = ", ".join(f"[`{word}`]({word}.md)" for word in command.variants)
        lines += [f"One of {names} follows the command, and adds its own options.", ""]
    lines += _render_presets(name)
    own = options_of(command.options, command.choices)
    for group, options in groupby(own, key=lambda option: option.group):
        is_first = group in (inspect.getdoc(command.options) or "")
        lines += [f"## {'Options' if is_first else group.partition('. ')[0].rstrip('.')}", ""]
        lines += (line for option in options for line in _render_option(option))
    return "\n".join(lines)


def _render_presets(name: str) -> Iterator[str]:
    """Yield the lines on the presets of a command that builds an objective."""
    presets = OBJECTIVES[name].presets if name in OBJECTIVES.names else {}
    if not presets:
        return
    yield from ("## Presets", "", "| `--preset` | sets | source |", "|---|---|---|")
    for preset, entry in presets.items():
        values = ", ".join(f"`{option}={value}`" for option, value in entry.options.items())
        yield f"| `{preset}` | {values or 'the defaults'} | {entry.source} |"
    yield ""


def _render_option(option: Option) -> Iterator[str]:
    names = f"`{option.name.upper()}`" if option.is_positional else f"`{option.flag}`"
    if option.hint is bool:
        names += f", `--no-{option.flag[2:]}`"
    default = "required" if option.is_required else f"default: {_describe_default(option)}"
    text = option.text.replace("<", "&lt;").replace("[", "\\[").replace("|", "\\|")
    yield from (names, f":   {_describe_values(option)}; {default}", "")
    yield from (f"    {' '.join(text.split())}", "")


def _describe_values(option: Option) -> str:
    """Say what an option takes, as in "`zstd`, `none` or None"."""
    if option.hint is bool:
        return "switch"
    words = [f"`{value}`" for value in option.choices]
    for kind in option.kinds:
        if get_origin(kind) is tuple:
            words.append("one or more values")
        elif get_origin(kind) is not Literal and not (kind is str and words):
            words.append(_KINDS.get(kind, getattr(kind, "__name__", str(kind))))
    *first, last = words
    return f"{', '.join(first)} or {last}" if first else last


def _describe_default(option: Option) -> str:
    own, words = _DEFAULTS.get(option.name, (None, ""))
    if option.default is not None and option.default == own:
        return words
    if option.default is None and NoneType not in option.kinds:
        return "see below"
    if isinstance(option.default, bool):
        return "on" if option.default else "off"
    if isinstance(option.default, tuple):
        return " ".join(f"`{item}`" for item in option.default) or "none"
    if isinstance(option.default, int):
        return f"{option.default:,}"
    return f"`{option.default}`"


if __name__ == "__main__":
    for chosen in sys.argv[1:] or [entry.name for entry in list_commands()]:
        sys.stdout.write(render_command(chosen))

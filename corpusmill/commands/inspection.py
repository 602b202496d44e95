"""A data set is shown: its figures and decoded examples."""

from math import ceil

from corpusmill.commands.build_command import commands_of
from corpusmill.commands.command import Call
from corpusmill.commands.inspect import Inspect
from corpusmill.console.terminal import hide_native_errors
from corpusmill.console.terminal_report import Origin, print_inspection
from corpusmill.dataset.manifest import SUCCESS
from corpusmill.dataset.shards import open_data_set, read_tokenizer
from corpusmill.errors import UserError, option
from corpusmill.inspection.decoded_examples import DecodedExample, DrawnExample, draw_examples
from corpusmill.inspection.figures import summarize

_ON_PAGE, _FEWEST_ON_PAGE = 200, 20


def inspect(command: Inspect, call: Call) -> int:
    """Print decoded examples and the report of a data set.

    Raises:
        UserError: the folder does not hold a data set, or one that is damaged.
    """
    if command.examples < 0:
        raise UserError(option("examples", command.examples), "it is negative", "Give 0 or more")
    page = call.locate(command.html) if command.html else None
    if page:
        # Imported here because a report in the terminal has no plots.
        from corpusmill.console.html_report import PAGE_BEGIN, render_page  # noqa: PLC0415

        page.check_file("html", PAGE_BEGIN)
    root = call.locate(command.folder)
    folder, manifest = open_data_set(root)
    report, tokenizer_json = summarize(manifest), read_tokenizer(folder, manifest)
    printed, drawn = list[DecodedExample](), list[DrawnExample]()
    for name in manifest.splits:
        number = command.examples
        if page:
            # The split's share of the rows, but some even of a small split.
            share = manifest.splits[name].rows / max(1, manifest.rows)
            number = max(number, _FEWEST_ON_PAGE, ceil(_ON_PAGE * share))
        with hide_native_errors():
            of_split = draw_examples(folder, manifest, tokenizer_json, name, number)
        printed += [one.example for one in of_split[: command.examples]]
        drawn += of_split
    origin = Origin(root.url, root.written_at(SUCCESS), commands_of(manifest))
    print_inspection(call.console, manifest, printed, report, origin)
    if page:
        page.write(render_page(manifest, drawn, report, origin).encode())
        call.console.print(f"the report with plots is in {command.html}")
    return 0

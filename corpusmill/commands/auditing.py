"""Token files are opened, judged and shown."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain

from corpusmill.audit.audit import audit_files
from corpusmill.audit.conventions import Given
from corpusmill.audit.findings import find
from corpusmill.audit.report import NUMBERS_BEGIN, AuditReport, make_report
from corpusmill.audit.text_checks import TextChecks
from corpusmill.audit.token_files import (
    TOKEN_FORMATS,
    TokenFile,
    TokenFolder,
    UnreadableFile,
    open_files,
)
from corpusmill.audit.tokenizer_checks import TokenizerChecks
from corpusmill.commands.audit import Audit
from corpusmill.commands.command import Call
from corpusmill.console.html_report import PAGE_BEGIN, render
from corpusmill.console.process import FAILURE
from corpusmill.console.terminal_report import print_audit
from corpusmill.corpus.batches import FileRange
from corpusmill.corpus.input_formats import read_file
from corpusmill.errors import UserError, option
from corpusmill.location import drop_last_slash
from corpusmill.tokenization.sources.read import read_tokenizer


def audit(command: Audit, call: Call) -> int:
    """Print what is wrong with token files.

    Raises:
        UserError: there is no token file, or none that can be read.
    """
    command.documents.refuse_groups()
    if (where := command.documents.where) is not None:
        cause = "the texts of all records are looked up in the token files"
        raise UserError(option("where", where), cause, "Leave it out")
    page, numbers = (call.locate(path) if path else None for path in (command.html, command.json))
    if page:
        page.check_file("html", PAGE_BEGIN)
    if numbers:
        numbers.check_file("json", NUMBERS_BEGIN)
    report = _judge(command, call, [*_open_all(command, call)])
    print_audit(call.console, report)
    if page:
        page.write(render("audit.html.jinja", report=report).encode())
        call.console.print(f"the report is in {command.html}")
    if numbers:
        content = json.dumps(report.to_json(), indent=1, ensure_ascii=False) + "\n"
        numbers.write(content.encode())
        call.console.print(f"all numbers are in {command.json}")
    return FAILURE if command.strict and report.findings else 0


def _judge(command: Audit, call: Call, files: Sequence[TokenFile]) -> AuditReport:
    """Measure and judge files, of which some can be read.

    Raises:
        UserError: they are of several formats, or none can be read.
    """
    formats = sorted({file.format for file in files})
    if len(formats) > 1:
        cause = f"they are of several formats: {', '.join(formats)}"
        cure = f"Give {option('format')}, or the files of one at a time"
        raise UserError(" ".join(command.paths), cause, cure)
    if all(isinstance(file, UnreadableFile) for file in files):
        cause = f"it cannot be read as {formats[0]}: {files[0].faults[0]}"
        raise UserError(files[0].name, cause, f"Give {option('format')}, or copy it again")
    tokenizer = None
    given = Given(command.begin_id, command.end_id, command.pad_id)
    # A data set of ours has its tokenizer; what other files name may be anything.
    name = command.tokenizer or files[0].tokenizer * (formats == ["corpusmill"])
    if command.text and not name:
        needed = option("tokenizer")
        raise UserError(option("text", command.text), f"it needs {needed}", f"Give {needed}")
    if name:
        tokenizer = read_tokenizer(
            name, lambda path: call.locate(path).read_any(), command.tokenizer_options
        )
        given = replace(given, special=tokenizer.special, vocab_size=tokenizer.vocab_size)
    measured = audit_files(files, given, round(1 / command.sample))
    checks = TokenizerChecks(tokenizer, measured) if tokenizer else None
    corpus = partial(_read_texts, command, call)
    texts = TextChecks(measured, checks, corpus) if checks and command.text else None
    return make_report(measured, find(measured, checks, texts), checks)


def _open_all(command: Audit, call: Call) -> Iterator[TokenFile]:
    """Open the token files at all paths.

    Raises:
        UserError: there is no such file or folder, or it holds no token file.
    """
    for text in command.paths:
        path = call.locate(text)
        sizes, folder, wanted = path.list(), path, ""
        if not sizes:  # a file, beside which its index may lie
            wanted = path.url.rpartition("/")[2]
            folder = call.locate(drop_last_slash(text.removesuffix(wanted)) or ".")
            sizes = {name: size for name, size in folder.list().items() if "/" not in name}
        opened = [*open_files(TokenFolder(folder, sizes, command.dtype), command.format, wanted)]
        if not opened:
            is_there = wanted in sizes if wanted else bool(sizes)
            cause = "there is no token file" if is_there else "there is no such file or folder"
            raise UserError(text, cause, f"Give a file of {', '.join(TOKEN_FORMATS.names)}")
        yield from opened


def _read_texts(command: Audit, call: Call) -> Iterator[str]:
    """Yield the texts of the corpus."""
    options = replace(command.documents, sentence_rule="document")
    folders = [call.locate(path) for path in command.text]
    files = [
        folder / name if name else folder for folder in folders for name in folder.list() or [""]
    ]
    for number, file in enumerate(files):
        part = FileRange(str(file), number, options, format_is_known=False)
        with file.open() as stream:
            for batch in read_file(stream, part):
                yield from chain.from_iterable(batch.documents.column("sentences").to_pylist())

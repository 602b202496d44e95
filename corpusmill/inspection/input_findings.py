"""What makes an input of little use: much of it cannot be read, or is cut into pieces."""

from collections.abc import Iterator

from corpusmill.corpus.options import DocumentOptions
from corpusmill.dataset.accounting import measure_rejects
from corpusmill.inspection.facts import Facts
from corpusmill.inspection.usual_values import USUAL, Finding, percent


def check_rejects(facts: Facts) -> Iterator[Finding]:
    """Find rejects that are much of the records, of the bytes or of the files."""
    loss = measure_rejects(facts.manifest.counts, len(facts.manifest.corpus.files))
    usual = USUAL["rejects"]
    if loss.share > usual.high:
        what = f"{percent(loss.share)} of the {loss.unit} {loss.verb}"
        cause = "They are damaged, or not of the format or the encoding that was read"
        if loss.unit == "bytes":
            cause = "Lines or texts above --max-line-bytes, or damaged files or blocks, have them"
        cure = "Look into rejects/rejects.jsonl, and choose --input-format or repair the input"
        yield Finding("rejects", what, loss.share, usual.shown, cause, cure)


def check_cut_documents(facts: Facts) -> Iterator[Finding]:
    """Find documents that were cut, unless someone has chosen where."""
    limit, usual = DocumentOptions.max_document_bytes, USUAL["cut documents"]
    cut, size = facts.count("read.cut_documents"), facts.count("tokenize.text_bytes")
    # Each piece follows one that has about as much text as the limit allows.
    share = min(1.0, cut * limit / max(1, size))
    if share > usual.high and facts.rules.get("max_document_bytes", limit) == limit:
        what = f"About {percent(share)} of the text is in documents that were cut"
        cause = f"Above --max-document-bytes {limit}, {cut:,} pieces became documents of their own"
        cure = "Give a --document-rule that finds where documents end, or a larger limit"
        yield Finding("cut documents", what, share, usual.shown, cause, cure)

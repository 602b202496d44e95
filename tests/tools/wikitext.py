"""WikiText-2, or text like it."""

from pathlib import Path

from benchmarks.synthetic.corpus import write_corpus

# Beside the checkout.
WIKITEXT_2 = Path(__file__).resolve().parents[3] / "shared" / "data" / "wikitext-2"


def find_wikitext(folder: Path) -> Path:
    """Return the folder of WikiText-2, or one of text in its layout where that is missing.

    Args:
        folder: where text is made.
    """
    if WIKITEXT_2.exists():
        return WIKITEXT_2
    # The smaller text is the beginning of the larger one.
    for name, size in (("train", 2_000_000), ("valid", 300_000)):
        write_corpus(folder / f"wiki.{name}.tokens", size)
    return folder

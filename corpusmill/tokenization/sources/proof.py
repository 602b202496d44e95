"""Whether two tokenizers give the same ids, on texts that expose differences."""

from collections.abc import Iterable
from dataclasses import dataclass

from corpusmill.tokenization.tokenizer_file import Encode

_SHOWN = 60

# Few and short: every run tokenizes them several times.
HARD_TEXTS = (
    "",
    " ",
    "  ",
    " leading",
    "trailing ",
    "  both  sides   and     runs of      spaces  ",
    "tab\tline\nreturn\rboth\r\nfeed\x0b\x0cnext\x85end",
    "\n\n\nlines\n \n  indented\n\t\ttabs \n",
    "no-break\xa0thin\u2009ideographic\u3000en\u2002narrow\u202fspace",
    "line\u2028paragraph\u2029ogham\u1680space",
    "zero\u200bwidth\u200cnon\u200djoiner\ufeffmark\u2060word",
    "don't I'll we've they're he'd I'm it's DON'T I'LL 'tis rock'n'roll ''quoted'' it\u2019s",
    "0 1 12 123 1234 12345678901234567890 3.14 1,000,000 1e-9 0x41 2\xb2 \xbd \u2167 \u0663\u0664",
    '!!! ... ?! --- @-@ ,,, (a) [b] {c} <d> "e" `f` a/b a\\b #g $5.00 50% x=y+z*2^3 ~~~ ___ |||',
    (
        "CamelCase snake_case kebab-case ALLCAPS mIxEd x86_64 e-mail@example.org https://a.b/c?d="
        "e&f=g#h"
    ),
    (
        "na\xefve caf\xe9 cafe\u0301 \xfcber u\u0308ber \xc5 A\u030a \u1e69 s\u0323\u0307 \u01c6 "
        "\ufb01ne stra\xdfe \u1e9e"
    ),
    (
        "\u0130stanbul \u0131 \u039f\u0394\u03a5\u03a3\u03a3\u0395\u03a5\u03a3 \u03c3\u03c2 "
        "\u0416\u0443\u0440\u043d\u0430\u043b \u0438\u0306 \u10d0\u10d1"
    ),
    "中文没有空格。日本語のテキスト、\uff76\uff9e 한국어 \uff21\uff22\uff23\uff11\uff12 \U00020000",
    (
        "\u0627\u0644\u0639\u0631\u0628\u064a\u0629 \u0645\u064e\u0631\u0652\u062d\u064e\u0628"
        "\u064b\u0627 \u061f \u05e9\u05b8\u05c1\u05dc\u05d5\u05b9\u05dd \u0641\u0627\u0631\u0633"
        "\u06cc \u0645\u06cc\u200c\u0631\u0648\u0645"
    ),
    "ภาษาไทยไม่มีช่องว่าง กำ น้ำ",
    "हिन्दी क्षत्रिय ड़ा বাংলা தமிழ்",
    (
        "\U0001f600\U0001f44d\U0001f3fd \U0001f468\u200d\U0001f469\u200d\U0001f467\u200d"
        "\U0001f466 \U0001f3f3\ufe0f\u200d\U0001f308 \U0001f1e9\U0001f1ea 1\ufe0f\u20e3 \u2764"
        "\ufe0f"
    ),
    "a\x00b\x01c\x07d\x1be\x7ff\x80g\x9fh\u00adi",
    "\ufffd \ue000 \ufdd0 \U0010ffff \u0378",
    "\u2581 a\u2581b \u2581\u2581c d\u2581",
    "\u0120 \u010a a\u0120b ##a ##",
    "a" * 300,
    "ab" * 200 + " " + "-" * 150 + " " + "\u6f22" * 120,
)

# Like whole documents: code, paragraphs, lists and tables, with the line breaks of every system.
LINED_TEXTS = (
    "def f(a, *b):\n    if a:\n        return [\n            1,\n        ]\n\n\n# end\n",
    "func f() {\r\n\tif a {\r\n\t\treturn 1 // b\r\n\t}\r\n}\r\n\r\n",
    " \n = Title = \n \n Some text . \n More , here \n = = Part = = \n \n Text \n ",
    'A line,\nand a line.\n\nA paragraph!\n\n\n"Another"\n\n  1. one\n  2. two\n\n    deep\n',
    "line \nspace  \ntab\t\nboth \t\n \n\t\n \n\nend   ",
    ".\n/a\n//b\n'c\n's\n(d)\n-\n--\n1\n23\n456\n \u00e9\u3002\n\u4e2d\n",
    "a\rb\n\rc\r\r\nd\n\u3000e\u3000\nf\u00a0\n\u00a0g\n\u2028\nh\x0b\n\x0ci\n\u0301j\n\u00a8k",
    "\n" * 40 + "x" + "\n " * 40 + "y" + " \n" * 40,
)


@dataclass(frozen=True)
class Difference:
    """A text to which two tokenizers give different ids.

    Attributes:
        text: the text.
        ids: its ids by the first tokenizer.
        reference_ids: its ids by the second one.
    """

    text: str
    ids: tuple[int, ...]
    reference_ids: tuple[int, ...]

    def __str__(self) -> str:
        pairs = zip(self.ids, self.reference_ids, strict=False)
        same = next(
            (place for place, (one, other) in enumerate(pairs) if one != other),
            min(len(self.ids), len(self.reference_ids)),
        )
        begin = max(0, same - 3)
        shown, expected = (list(ids[begin : begin + 8]) for ids in (self.ids, self.reference_ids))
        text = self.text if len(self.text) <= _SHOWN else self.text[:_SHOWN] + "..."
        return f"{text!r} gives, from token {begin} on, {shown} and {expected}"


def hard_texts(special_names: Iterable[str]) -> list[str]:
    """`HARD_TEXTS`, and texts with special tokens: alone, in a row, in words and in sentences.

    Args:
        special_names: the special tokens of the tokenizer; only the first 32 are used.
    """
    names = sorted(special_names)[:32]
    written = [text for name in names for text in (name, f"a {name} b", f"x{name}y{name}{name} ")]
    others = ["<s>a</s>", "<|endoftext|>", "a<|endoftext|>b", "[CLS] a [SEP]", "<0x41><0x0A>"]
    return [*HARD_TEXTS, *written, *others]


def find_difference(encode: Encode, reference: Encode, texts: list[str]) -> Difference | None:
    """Find the shortest text to which two tokenizers give different ids.

    Args:
        encode: returns the ids of each text.
        reference: likewise.
        texts: the texts to compare on.

    Returns:
        None if all ids are equal.

    Example:
        if both give [5] for "a", but [5, 6] and [7] for "ab", the texts ["a", "ab"] give
        Difference("ab", (5, 6), (7,)).
    """
    rows = zip(texts, encode(texts), reference(texts), strict=True)
    different = [(text, ids, expected) for text, ids, expected in rows if ids != expected]
    if not different:
        return None
    text, ids, expected = min(different, key=lambda row: len(row[0]))
    return Difference(text, tuple(ids), tuple(expected))

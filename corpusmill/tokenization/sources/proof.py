"""Whether two tokenizers give the same ids, on texts that expose differences."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import takewhile

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
    "naïve café cafe\u0301 über u\u0308ber Å A\u030a ṩ s\u0323\u0307 ǆ ﬁne straße ẞ",
    "İstanbul \u0131 ΟΔΥΣΣΕΥΣ σς Журнал и\u0306 აბ",
    "中文没有空格。日本語のテキスト、\uff76\uff9e 한국어 \uff21\uff22\uff23\uff11\uff12 \U00020000",
    "العربية م\u064eر\u0652ح\u064eب\u064b\u0627 ؟ ש\u05b8\u05c1ל\u05d5\u05b9ם فارسی می\u200cروم",
    "ภาษาไทยไม่มีช่องว่าง กำ น้ำ",
    "हिन्दी क्षत्रिय ड़ा বাংলা தமிழ்",
    "😀👍🏽 👨\u200d👩\u200d👧\u200d👦 🏳\ufe0f\u200d🌈 🇩🇪 1\ufe0f\u20e3 ❤\ufe0f",
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
        same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
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

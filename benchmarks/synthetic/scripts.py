"""Random text in scripts that are hard for tokenizers: Chinese, Arabic, Thai, emoji.

    python -m benchmarks.synthetic.scripts thai 2700000 thai.txt

Words are drawn from a vocabulary for each script by Zipf's law; as in real text, there are no
spaces between words in Chinese and Thai, and in Thai one between phrases. Unlike real text it does
not have topics, nor always new words: a memo of words works better here.
"""

import argparse
from pathlib import Path

import numpy as np

_WORDS, _EXPONENT = 30_000, 1.07

_CHINESE = [chr(code) for code in range(0x4E00, 0x4E00 + 3500)]
_ARABIC = list("ابتثجحخدذرزسشصضطظعغفقكلمنهوي")
_THAI_FIRST = list("กขคงจชซดตทนบปพมยรลวสหอ")
_THAI_THEN = ["า", "ี", "ู", "ิ", "ุ", "ั", "ะ", "่า", "้า", "ื่", "็", ""]
_THAI_LAST = ["", "", "น", "ง", "ม", "ก", "ด", "บ", "ย"]
_EMOJI = ["😀", "👍🏽", "👩‍🚀", "🇩🇪", "❤️", "🔥", "🧪", "🏳️‍🌈", "✨", "🤷‍♂️"]


def _spell(script: str, draw: np.random.Generator) -> str:
    """Return a random word."""
    syllables = 1 + int(draw.integers(0, 3))
    if script == "chinese":
        return "".join(draw.choice(_CHINESE, syllables))
    if script == "arabic":
        return "".join(draw.choice(_ARABIC, 2 + syllables))
    if script == "thai":
        parts = (_THAI_FIRST, _THAI_THEN, _THAI_LAST)
        return "".join(str(draw.choice(part)) for _ in range(syllables) for part in parts)
    if draw.random() < 0.3:
        return str(draw.choice(_EMOJI))
    return "".join(draw.choice(list("aeioubdklmnrst"), 1 + 2 * syllables))


# Between words, after a sentence, and within a sentence.
SCRIPTS = {
    "chinese": ("", "。", "\uff0c"),
    "arabic": (" ", ".", "،"),
    "thai": ("", " ", " "),
    "emoji": (" ", "!", " …"),
}


def write_script(script: str, size: int, path: Path) -> None:
    """Write a text of about `size` bytes: documents of five lines, separated by blank lines."""
    draw = np.random.default_rng(7)
    words = np.array([_spell(script, draw) for _ in range(_WORDS)], dtype=object)
    weights = 1 / np.arange(1, _WORDS + 1) ** _EXPONENT
    weights /= weights.sum()
    between, stop, comma = SCRIPTS[script]
    written = line = 0
    with path.open("w", encoding="utf-8") as stream:
        while written < size:
            sentences = []
            for length in draw.integers(6, 30, 8):
                chosen = words[draw.choice(_WORDS, length, p=weights)]
                half = length // 2
                first, second = between.join(chosen[:half]), between.join(chosen[half:])
                sentences.append(f"{first}{comma}{second}{stop}")
            line += 1
            text = "".join(sentences) + ("\n\n" if line % 5 == 0 else "\n")
            stream.write(text)
            written += len(text.encode())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("script", choices=sorted(SCRIPTS))
    parser.add_argument("bytes", type=int)
    parser.add_argument("path", type=Path)
    options = parser.parse_args()
    write_script(options.script, options.bytes, options.path)

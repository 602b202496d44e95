"""How byte-level tokenizers write bytes, and the regular expressions that break text into pieces.

Each expression is written exactly as in tokenizer.json files, which are recognized by it. (The
tiktoken library writes some of them in a way that means something else to the tokenizers library,
whose regular expressions read {1,3}+ and $ differently.)
"""

from functools import cache

# GPT-2 (Radford et al. 2019), RoBERTa; the ByteLevel pre-tokenizer has it built in.
GPT2 = r"""'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"""
# GPT-3.5 and GPT-4 (cl100k_base), Llama 3.
CL100K = (
    r"""(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"""
    r"""| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"""
)
# Qwen 2.
QWEN2 = CL100K.replace("{1,3}", "")
# GPT-4o (o200k_base).
_CONTRACTION = r"""(?i:'s|'t|'re|'ve|'m|'ll|'d)?"""
O200K = (
    r"""[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"""
    rf"""{_CONTRACTION}|"""
    r"""[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"""
    rf"""{_CONTRACTION}|"""
    r"""\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"""
)
PATTERNS = frozenset({GPT2, CL100K, QWEN2, O200K})


@cache
def byte_alphabet() -> dict[str, int]:
    """The bytes in order, by the characters that GPT-2 writes: printable ones as themselves."""
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = iter(range(0x100, 0x200))
    return {chr(byte if byte in printable else next(others)): byte for byte in range(256)}

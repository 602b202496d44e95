"""The regular expressions by which byte-level tokenizers break text into pieces.

Each is written as tokenizer.json files have it, since it is known by its text. (As the tiktoken
library writes some of them, they mean something else to the tokenizers library, whose regular
expressions take {1,3}+ and $ in another way.)
"""

# GPT-2 (Radford et al. 2019), RoBERTa; what the ByteLevel pre-tokenizer has built in.
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

"""The tokenizer of plain bytes, which needs no file: byte-level BPE without merges.

The first ids are those of ByT5 (Xue et al. 2022): padding, end and unknown, then the bytes. Behind
them stand the special tokens of all objectives, so that data sets of several objectives have the
same ids and can be mixed.
"""

from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from corpusmill.tokenization.compiled.byte_level_pieces import byte_alphabet
from corpusmill.tokenization.sources.source import Source, SourceFile
from corpusmill.tokenization.tokenizer_file import BYTES_FORM

BYTES = "bytes"

_FIRST = ("<pad>", "</s>", "<unk>")
# As many sentinels as UL2's rows of 512 tokens need, its modes, and the marks of moved middles and
# of conversations.
_LAST = (
    "[CLS]", "[SEP]", "[MASK]", "<|fim_prefix|>", "<|fim_middle|>", "<|fim_suffix|>",
    "<|im_start|>", "<|im_end|>", "[R]", "[S]", "[X]",
    *(f"<extra_id_{number}>" for number in range(128)),
)  # fmt: skip


def from_name(file: SourceFile) -> Source:
    """Make the tokenizer of bytes, for which a file stands in name only."""
    tokens = [*_FIRST, *byte_alphabet(), *_LAST]
    vocabulary = {token: number for number, token in enumerate(tokens)}
    tokenizer = Tokenizer(models.BPE(vocabulary, []))
    # No token crosses a byte, so that the pattern changes nothing but the speed.
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([*_FIRST, *_LAST])
    return Source(BYTES_FORM, tokenizer, file.options)

"""DeBERTa-v3's rows in plain Python, after its prepare_data.py: all tokens joined, and cut.

`electra --merge-documents` must give the same rows of the documents in the order of a shard
(test_electra.py).
"""

from collections.abc import Iterable, Iterator


def cut_corpus(lines: Iterable[list[int]], max_seq_length: int) -> Iterator[list[int]]:
    """Yield the rows of a corpus without [CLS] and [SEP]; only the last one can be short."""
    all_tokens: list[int] = []
    for line in lines:
        all_tokens.extend(line)
    begin = 0
    while begin < len(all_tokens):
        yield all_tokens[begin : begin + max_seq_length - 2]
        begin += max_seq_length - 2

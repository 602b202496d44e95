"""GPT's rows in plain Python, as their sources describe them, to compare the kernels with.

Sources: "BPE vocabulary and data loading pipeline for training a large model from scratch"
(windows), "Building the Dataset and DataLoader for training a large language model" (streams), and
Ding et al. 2024, "Fewer Truncations Improve Language Modeling" (best-fit packing).
"""

from collections.abc import Iterator, Sequence


def windows(tokens: Sequence[int], chunk_size: int, overlap: int) -> Iterator[list[int]]:
    """Cut the first article's chunks, without those that end no later than a previous one."""
    covered = 0
    for start in range(0, len(tokens), chunk_size - overlap):
        chunk = list(tokens[start : start + chunk_size])
        if start + len(chunk) <= covered:
            continue
        yield chunk
        covered = start + len(chunk)


class FileDataset:
    """The second article's first data set: a range of places per file, and its tokens on demand.

    A file's range ends with the place of the end-of-text token after it.
    """

    def __init__(
        self, files: Sequence[Sequence[int]], end_of_text: int, context_len: int, stride: int
    ) -> None:
        self._files, self._end_of_text = files, end_of_text
        self._context_len, self._stride = context_len, stride
        self._ranges: list[tuple[int, int]] = []
        total = 0
        for file in files:
            self._ranges.append((total, total + len(file)))
            total += len(file) + 1

    def __len__(self) -> int:
        return (self._ranges[-1][1] - self._context_len) // self._stride + 1

    def __getitem__(self, index: int) -> tuple[list[int], list[int]]:
        begin = index * self._stride
        end = begin + self._context_len
        sample: list[int] = []
        for (first, last), file in zip(self._ranges, self._files, strict=True):
            if last < begin or first > end:
                continue
            tokens = [*file, self._end_of_text]
            from_place = begin - first if first <= begin <= last else 0
            to_place = end - first + 1 if first <= end <= last else len(tokens)
            sample += tokens[from_place:to_place]
        return sample[:-1], sample[1:]


class MemoryDataset:
    """The second article's other data set: all tokens in one list."""

    def __init__(
        self, files: Sequence[Sequence[int]], end_of_text: int, context_len: int, stride: int
    ) -> None:
        self._tokens = [token for file in files for token in (*file, end_of_text)]
        self._context_len, self._stride = context_len, stride

    def __len__(self) -> int:
        return (len(self._tokens) - self._context_len - 1) // self._stride + 1

    def __getitem__(self, index: int) -> tuple[list[int], list[int]]:
        begin = index * self._stride
        end = begin + self._context_len
        return self._tokens[begin:end], self._tokens[begin + 1 : end + 1]


def best_fit(lengths: Sequence[int], max_seq_length: int) -> list[int]:
    """Put pieces, the longest first, into the fullest row with room; return sorted row lengths."""
    rows: list[int] = []
    for length in sorted(lengths, reverse=True):
        fitting = [place for place, used in enumerate(rows) if used + length <= max_seq_length]
        if fitting:
            rows[max(fitting, key=lambda place: rows[place])] += length
        else:
            rows.append(length)
    return sorted(rows)

"""A small transformer that trains to the same bits however its batches are divided.

Sums of floating-point numbers depend on their order, so that the usual all-reduce gives other bits
with other ranks. Here nothing does:

- Each row is computed alone and at one width, in float64 and by one thread. Its loss and gradient
  are functions of the row and the weights, and not of the batch that it came in.
- They are rounded to multiples of 2**-36. These are integers, which add up to the same sum in any
  order: within a rank, among ranks, and whichever message comes first.
- Every rank makes the same step with the same sum.

This is slow, and a way to prove that the data are equal, not a way to train. What it shows of the
data holds for any model: equal rows in equal steps.
"""

import hashlib
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

# Losses and gradients are multiples of its inverse. The gradient of a row of a few hundred tokens
# is below 2**12, and a batch has fewer than 2**12 rows: their sum needs 60 bits.
_SCALE = 2.0**36

_NOT_PREDICTED = -100


class RowResult(NamedTuple):
    """What one row contributes to a step.

    Attributes:
        loss: the sum of its tokens' losses in nats, times 2**36.
        tokens: the number of tokens that are predicted.
        gradient: int64[parameters], of that sum, times 2**36.
    """

    loss: int
    tokens: int
    gradient: npt.NDArray[np.int64]


class SmallModel(nn.Module):
    """One layer of attention that stays inside the pieces of a row, and the softmax of tokens.

    Args:
        vocab_size: the number of tokens.
        width: the length of rows.
        is_causal: whether a token sees only those before it.
        hidden_size: the size of embeddings.
    """

    def __init__(self, vocab_size: int, width: int, is_causal: bool, hidden_size: int = 16) -> None:
        super().__init__()
        self._is_causal = is_causal
        generator = torch.Generator().manual_seed(0)

        def matrix(rows: int, columns: int) -> nn.Parameter:
            values = torch.randn(rows, columns, generator=generator, dtype=torch.float64)
            return nn.Parameter(values / columns**0.5)

        self.tokens, self.places = matrix(vocab_size, hidden_size), matrix(width, hidden_size)
        self.query, self.key = matrix(hidden_size, hidden_size), matrix(hidden_size, hidden_size)
        self.value = matrix(hidden_size, hidden_size)
        self.output = matrix(vocab_size, hidden_size)

    def forward(self, input_ids: Tensor, position_ids: Tensor, pieces: Tensor) -> Tensor:
        """Return the logits of a row.

        Args:
            input_ids: int64[width].
            position_ids: int64[width], the place of each token in its piece.
            pieces: int64[width], the number of the piece that each token belongs to.

        Returns:
            float64[width, vocab_size].
        """
        states = self.tokens[input_ids] + self.places[position_ids]
        is_seen = pieces[:, None] == pieces
        if self._is_causal:
            is_seen = is_seen.tril()
        scores = (states @ self.query) @ (states @ self.key).T / states.shape[1] ** 0.5
        weights = scores.masked_fill(~is_seen, -torch.inf).softmax(1)
        logits: Tensor = (states + weights @ (states @ self.value)) @ self.output.T
        return logits

    def measure_row(self, row: Mapping[str, Tensor]) -> RowResult:
        """Compute the loss and the gradient of one row.

        Args:
            row: input_ids, position_ids, pieces and targets, int64[width] each; a target of -100
                is not predicted.
        """
        self.zero_grad()
        logits = self(row["input_ids"], row["position_ids"], row["pieces"])
        loss = cross_entropy(logits, row["targets"], reduction="sum", ignore_index=_NOT_PREDICTED)
        loss.backward()
        gradients = [parameter.grad for parameter in self.parameters()]
        flat = torch.cat([gradient.flatten() for gradient in gradients if gradient is not None])
        tokens = int((row["targets"] != _NOT_PREDICTED).sum())
        return RowResult(round(loss.item() * _SCALE), tokens, _to_integers(flat))

    def step(self, gradient: npt.NDArray[np.int64], tokens: int, learning_rate: float) -> None:
        """Descend by the mean gradient of all tokens of a step.

        Args:
            gradient: int64[parameters], the sum over all rows of all ranks.
            tokens: the number of tokens that these predict.
            learning_rate: 0 leaves the weights as they are.
        """
        mean = gradient / _SCALE / max(tokens, 1)
        self.load_weights(self.weights() - learning_rate * torch.from_numpy(mean))

    def weights(self) -> Tensor:
        """Return a copy of all weights, float64[parameters]."""
        return nn.utils.parameters_to_vector(self.parameters()).detach()

    def load_weights(self, weights: Tensor) -> None:
        """Replace all weights, float64[parameters]."""
        nn.utils.vector_to_parameters(weights, self.parameters())

    def digest(self) -> str:
        """Return a digest of all weights."""
        return hashlib.sha256(self.weights().numpy().tobytes()).hexdigest()


def mean_loss(loss: int, tokens: int) -> float:
    """Return the mean loss of a step in nats, from the sums of its rows' losses and tokens."""
    return loss / _SCALE / max(tokens, 1)


def _to_integers(values: Tensor) -> npt.NDArray[np.int64]:
    return np.rint(values.numpy() * _SCALE).astype(np.int64)

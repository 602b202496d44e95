"""The mixtures of denoisers that rows are drawn from.

Source: Tay et al. 2022, "UL2: Unifying Language Learning Paradigms", section 3.1.2 and table 1, and
the program in the article's appendix. UL2 mixes seven denoisers, of which all take part equally:

    R   spans of 3 or 8 tokens, 15 %           regular, as T5
    S   one span at the end, 25 % on average   sequential, a prefix language model
    X   spans of 3, 8 or 64 tokens, 50 %, or of 64 tokens, 15 %   extreme

A row's input begins with the token of its mode, [R], [S] or [X]; the published models have [NLU],
[S2S] and [NLG] in their place. As in the program, spans are divided as T5 does, where the article
speaks of normally distributed lengths; and the share of S is that of the table, where the program
calls T5's function for a prefix language model, with a share of one half on average.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from corpusmill.objectives.denoising.denoisers import Denoiser


class MixedDenoiser(NamedTuple):
    """A denoiser of a mixture.

    Attributes:
        name: for reports.
        mode: the role of the special token that begins its inputs.
        denoiser: how it corrupts rows.
    """

    name: str
    mode: str
    denoiser: Denoiser


UL2 = (
    MixedDenoiser("R (spans of 3, 15 %)", "mode_r", Denoiser(0.15, 3.0)),
    MixedDenoiser("R (spans of 8, 15 %)", "mode_r", Denoiser(0.15, 8.0)),
    MixedDenoiser("S (one span at the end, 25 %)", "mode_s", Denoiser(0.25, 0.0)),
    MixedDenoiser("X (spans of 3, 50 %)", "mode_x", Denoiser(0.5, 3.0)),
    MixedDenoiser("X (spans of 8, 50 %)", "mode_x", Denoiser(0.5, 8.0)),
    MixedDenoiser("X (spans of 64, 15 %)", "mode_x", Denoiser(0.15, 64.0)),
    MixedDenoiser("X (spans of 64, 50 %)", "mode_x", Denoiser(0.5, 64.0)),
)

# The usual names of the tokens of modes: the article's, and those of the published models.
MODES: Mapping[str, Sequence[str]] = {
    "mode_r": ("[R]", "[NLU]"),
    "mode_s": ("[S]", "[S2S]"),
    "mode_x": ("[X]", "[NLG]"),
}

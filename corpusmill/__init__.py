"""Raw text in, ready-to-train examples for language-model pretraining out.

The library holds the compiled kernels, the objectives, the formats and the readers. It knows
nothing of Beam: `transforms/` wraps it in DoFns and `pipeline/` assembles and runs them.
"""

"""What authors of objectives and formats test theirs with."""

from corpusmill.testing.datasets import SmallBuild, small_text, small_tokenizer, write_dataset
from corpusmill.testing.formats import check_input_format, check_output_format
from corpusmill.testing.objectives import check_objective

__all__ = [
    "SmallBuild",
    "check_input_format",
    "check_objective",
    "check_output_format",
    "small_text",
    "small_tokenizer",
    "write_dataset",
]

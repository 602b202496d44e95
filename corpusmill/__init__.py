"""Raw text in, ready-to-train examples for language-model pretraining out.

The library holds the compiled kernels, the objectives, the formats and the readers. It does not
know Beam: `transforms/` wraps it in DoFns, and `pipeline/` assembles and runs them.

Everything here is imported when it is first used. With the batch job, corpusmill-job, there are:

    build               a data set from files, texts or tables
    train_tokenizer     a tokenizer from the same
    inspect_corpus      what is in a corpus, and what a build of it would give
    drop                documents removed from a data set, with every row that holds their text
    subset              a data set of some documents of another one
    merge               data sets joined to one

What a trainer needs, and what `build` returns:

    DataSet             a data set, opened: any of its examples by number; `Dataset` is the same
    make_batches        its batches, in one call
    Loader              NumPy batches from worker processes, for any framework
    TensorLoader        the same as PyTorch tensors
    MapDataset          a data set for PyTorch's DataLoader
    StreamingDataset    likewise, as a stream
    mix                 several data sets by proportion, or the sources of one
    Stage               proportions that hold for a part of the training
    curriculum          an order that reads a data set in stages, such as the shortest first
    collator_for        a model's arguments from rows
    push                a data set to the Hugging Face hub
    verify              every byte, row and count of a data set compared with its manifest
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from corpusmill.dataset.verify import verify as verify
    from corpusmill.job import build as build
    from corpusmill.job import drop as drop
    from corpusmill.job import inspect_corpus as inspect_corpus
    from corpusmill.job import merge as merge
    from corpusmill.job import subset as subset
    from corpusmill.job import train_tokenizer as train_tokenizer
    from corpusmill.publishing.push import push as push
    from corpusmill.reading.collate.collators import collator_for as collator_for
    from corpusmill.reading.data_set import DataSet as DataSet
    from corpusmill.reading.data_set import Dataset as Dataset
    from corpusmill.reading.load.loader import Loader as Loader
    from corpusmill.reading.make_batches import make_batches as make_batches
    from corpusmill.reading.order.curriculum import curriculum as curriculum
    from corpusmill.reading.order.mixture import mix as mix
    from corpusmill.reading.order.stages import Stage as Stage
    from corpusmill.reading.torch.dataset import MapDataset as MapDataset
    from corpusmill.reading.torch.dataset import TensorLoader as TensorLoader
    from corpusmill.reading.torch.streaming import StreamingDataset as StreamingDataset

    __version__: str

_MODULES = {
    "DataSet": "corpusmill.reading.data_set",
    "Dataset": "corpusmill.reading.data_set",
    "Loader": "corpusmill.reading.load.loader",
    "MapDataset": "corpusmill.reading.torch.dataset",
    "Stage": "corpusmill.reading.order.stages",
    "StreamingDataset": "corpusmill.reading.torch.streaming",
    "TensorLoader": "corpusmill.reading.torch.dataset",
    "build": "corpusmill.job",
    "collator_for": "corpusmill.reading.collate.collators",
    "curriculum": "corpusmill.reading.order.curriculum",
    "drop": "corpusmill.job",
    "inspect_corpus": "corpusmill.job",
    "make_batches": "corpusmill.reading.make_batches",
    "merge": "corpusmill.job",
    "mix": "corpusmill.reading.order.mixture",
    "push": "corpusmill.publishing.push",
    "subset": "corpusmill.job",
    "train_tokenizer": "corpusmill.job",
    "verify": "corpusmill.dataset.verify",
}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version  # noqa: PLC0415  takes a while, and few need it

        value: Any = version("corpusmill")
    elif name in _MODULES:
        value = getattr(import_module(_MODULES[name]), name)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES, "__version__"})

"""Raw text in, ready-to-train examples for language-model pretraining out.

The library holds the compiled kernels, the objectives, the formats and the readers. It does not
know Beam: `transforms/` wraps it in DoFns, and `pipeline/` assembles and runs them.

Everything here is imported when it is first used. With the batch job, corpusmill-job, there are:

    build               a data set from files, texts or tables
    train_tokenizer     a tokenizer from the same
    inspect_corpus      what is in a corpus, and what a build of it would give
    drop                documents removed from a data set, with every row that holds their text
    BertOptions, ChatOptions, ElectraOptions, ErnieOptions, GptOptions, T5Options
                        what `build` builds

What a trainer needs, and what `build` returns:

    DataSet             a data set, opened: any of its examples by number; `Dataset` is the same
    make_batches        its batches, in one call
    Loader              NumPy batches from worker processes, for any framework
    TensorLoader        the same as PyTorch tensors
    MapDataset          a data set for PyTorch's DataLoader
    StreamingDataset    likewise, as a stream; stream_state carries its place to other workers
    mix                 several data sets by proportion, or the sources of one
    Stage               proportions that hold for a part of the training
    collator_for        a model's arguments from rows
    MaskedDiffusion     how rows of `gpt` are masked for a model of masked diffusion
    Batches             batches of any order and size: of samples, an order, and
    FixedBatches, LengthBatches     batches of one size, or of samples of similar length
    padding_share       how much of the batches of an epoch is padding; PaddingShare counts it
    TokenWindows        windows of a stream of tokens, of any length and stride
    TokenPacks          its documents packed into rows of any length
    EpochBatchSampler   the batches of a MapDataset, for DataLoader
    document_attention  a mask that keeps the attention of packed rows within a document
    push                a data set to the Hugging Face hub
    verify              every byte, row and count of a data set compared with its manifest
    read_rejects        what a build could not read, each a Reject or many in columns
    UserError           the exception for a mistake of a caller, in one message

These names are stable, as are those of `corpusmill.extending` and `transforms`; modules are not.
"""

from typing import TYPE_CHECKING, Any

from corpusmill.lazy_names import lazy_names

if TYPE_CHECKING:
    from corpusmill.corpus.batches import Reject as Reject
    from corpusmill.corpus.reject_lines import read_rejects as read_rejects
    from corpusmill.errors import UserError as UserError
    from corpusmill.job import build as build
    from corpusmill.job import drop as drop
    from corpusmill.job import inspect_corpus as inspect_corpus
    from corpusmill.job import train_tokenizer as train_tokenizer
    from corpusmill.objectives.bert import BertOptions as BertOptions
    from corpusmill.objectives.chat import ChatOptions as ChatOptions
    from corpusmill.objectives.electra import ElectraOptions as ElectraOptions
    from corpusmill.objectives.ernie import ErnieOptions as ErnieOptions
    from corpusmill.objectives.gpt import GptOptions as GptOptions
    from corpusmill.objectives.t5 import T5Options as T5Options
    from corpusmill.publishing import push as push
    from corpusmill.reading.collate.collators import collator_for as collator_for
    from corpusmill.reading.collate.masked_diffusion import MaskedDiffusion as MaskedDiffusion
    from corpusmill.reading.data_set import DataSet as DataSet
    from corpusmill.reading.data_set import Dataset as Dataset
    from corpusmill.reading.load.batches import Batches as Batches
    from corpusmill.reading.load.length_batches import LengthBatches as LengthBatches
    from corpusmill.reading.load.length_batches import PaddingShare as PaddingShare
    from corpusmill.reading.load.length_batches import padding_share as padding_share
    from corpusmill.reading.load.loader import Loader as Loader
    from corpusmill.reading.load.loader import make_batches as make_batches
    from corpusmill.reading.mixture import mix as mix
    from corpusmill.reading.order.schedule import FixedBatches as FixedBatches
    from corpusmill.reading.order.stages import Stage as Stage
    from corpusmill.reading.token_packs import TokenPacks as TokenPacks
    from corpusmill.reading.token_windows import TokenWindows as TokenWindows
    from corpusmill.reading.torch.dataset import EpochBatchSampler as EpochBatchSampler
    from corpusmill.reading.torch.dataset import MapDataset as MapDataset
    from corpusmill.reading.torch.dataset import TensorLoader as TensorLoader
    from corpusmill.reading.torch.document_attention import document_attention as document_attention
    from corpusmill.reading.torch.streaming import StreamingDataset as StreamingDataset
    from corpusmill.reading.torch.streaming import stream_state as stream_state
    from corpusmill.verification.check_data_set import verify as verify

    __version__: str
else:
    _load, __dir__ = lazy_names(__name__)

    def __getattr__(name: str) -> Any:
        if name != "__version__":
            return _load(name)
        from importlib.metadata import version  # noqa: PLC0415  takes a while, and few need it

        return version("corpusmill")

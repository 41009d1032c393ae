"""A recipe: a task with its data, a model and a training plan, in one TOML file and one tree of dataclasses.

    task = "parity"
    [data]      # the task's own settings, see headway/tasks
    [model]
    [train]

This file lists every setting of [model] and [train] with its default.
"""

from dataclasses import dataclass, field
from typing import Any

from headway.config.settings import setting


@dataclass(frozen=True)
class ModelSpec:
    """The name of a part may carry options: ``rotary(base=500)``."""

    layers: int = setting(2, "number of layers; 0 with position=none: a bag of tokens", least=0)
    encoder_layers: int | None = setting(None, "encoder layers of an encoder-decoder; none: same as layers", least=0)
    width: int = setting(64, "model dimension", least=1)
    heads: int = setting(4, "number of attention heads", least=1)
    kv_heads: int | None = setting(None, "number of key and value heads; none: same as heads", least=1, was="key_heads")
    hidden: int | None = setting(None, "feed-forward dimension; none: 4 x width", least=1)
    embedding: str = setting("lookup", "token embedding; or a file or run of word vectors to initialize it from")
    position: str = setting("sinusoidal", "position encoding")
    encoder_position: str | None = setting(
        None, "position encoding in the encoder of an encoder-decoder; none: same as position"
    )
    mixer: str = setting("attention", "token mixer: attention, recurrent, ...")
    encoder_mixer: str | None = setting(None, "token mixer in the encoder of an encoder-decoder; none: same as mixer")
    shared: bool = setting(True, "share the embedding between encoder and decoder if they have one vocabulary")
    attention: str = setting("soft", "attention function")
    qk_norm: str = setting("none", "norm of queries and keys", was="head_norm")
    feedforward: str = setting("gelu", "feed-forward network")
    norm: str = setting("pre", "norm placement")
    norm_kind: str = setting("layernorm", "norm type")
    embedding_norm: bool = setting(False, "normalize the embeddings")
    bias: bool = setting(True, "biases in the linear layers of the blocks")
    head: str = setting("tied", "output head over the vocabulary")
    tag_head: str = setting("linear", "head of a tagger")
    characters: str = setting("none", "how a tagger reads the characters of a word, beside its tokens")
    init: str = setting("parts", "weight initialization of the blocks")
    causal: bool = setting(False, "causal mask in an encoder: a token sees only itself and earlier ones")
    pooling: str = setting("mean", "pooling of a sequence's hidden states into one vector")
    token_dropout: float = setting(0.0, "dropout rate of whole tokens", least=0, below=1)
    dropout: float = setting(0.0, "dropout rate on the embeddings and after every sublayer", least=0, below=1)
    head_dropout: float = setting(0.0, "dropout rate before the head of a classifier or a tagger", least=0, below=1)
    attention_dropout: float = setting(0.0, "dropout rate on the attention weights; slow on a CPU", least=0, below=1)


@dataclass(frozen=True)
class TrainSpec:
    seed: int = setting(1, "random seed: data, initial weights, order, dropout", least=0)
    steps: int = setting(1000, "number of optimizer steps", least=1)
    epochs: float | None = setting(None, "number of epochs, instead of steps; none: use steps", above=0)
    batch_size: int = setting(64, "maximum examples per batch", least=1, was="batch")
    batch_tokens: int | None = setting(
        None, "maximum tokens per batch; batches are bucketed by length; none: no limit", least=1, was="tokens"
    )
    freeze: str = setting("", "weights that are not trained: prefixes of their names, such as encoder.embedding")
    layer_decay: float = setting(
        1.0, "layer-wise learning rate decay: each layer's rate is that of the layer above times this", least=0, most=1
    )
    accumulate: int = setting(1, "gradient accumulation: micro-batches per batch", least=1)
    optimizer: str = setting("adamw", "optimizer")
    learning_rate: float = setting(1e-3, "peak learning rate", least=0)
    weight_decay: float = setting(0.01, "weight decay of matrices; none for biases, norms and scalars", least=0)
    schedule: str = setting("linear", "learning rate schedule")
    warmup: int = setting(100, "warm-up: steps in which the learning rate rises linearly to its peak", least=0)
    average: str = setting("none", "weight averaging; the averaged weights are evaluated and saved")
    grad_clip: float | None = setting(1.0, "maximum gradient norm; none: no clipping", above=0, was="clip")
    precision: str = setting("fp32", "floating-point precision", choices=("fp32", "bf16", "fp16"))
    compile: str = setting(
        "nothing",
        "what torch.compile compiles, for a GPU: blocks compile in seconds, the whole loss slower but runs faster",
        choices=("nothing", "blocks", "loss"),
    )
    cuda_graphs: bool = setting(False, "record the training step as CUDA graphs, one per batch shape", was="recorded")
    device: str = setting("auto", "device", choices=("auto", "cpu", "cuda", "mps"))
    threads: int | None = setting(
        None, "number of CPU threads; none: one per core, with train.grains 1", least=1, most=1024
    )
    processes: int = setting(1, "number of data-parallel processes, one per device", least=1, most=1024)
    parallel: str | None = setting(
        None, "axes of processes, outermost first, such as data:2,tensor:4; none: data:N with train.processes=N"
    )
    nodes: int = setting(1, "number of machines, on each of which torchrun or SLURM starts its processes", least=1)
    grains: int | None = setting(
        None,
        "groups of rows in each batch, a power of two: gradients add up group by group in a fixed order, so that any "
        "number of processes gives the same bits; none: as many as processes",
        least=1,
        most=1024,
    )
    log_every: int = setting(20, "steps between lines of metrics.jsonl", least=1)
    evaluate_every: int = setting(200, "steps between evaluations", least=1)
    checkpoint_every: int = setting(500, "steps between checkpoints", least=1)
    metrics: str = setting("", "more metrics, separated by spaces: f1, mcc, balanced_accuracy, or registered functions")
    stop_on: str | None = setting(
        None,
        "validation metric for early stopping; its best checkpoint is kept; none: with patience, accuracy for classes "
        "and the loss otherwise; without, the last weights are kept",
    )
    patience: int | None = setting(
        None, "early stopping: evaluations without improvement; none: no early stopping", least=1
    )
    min_delta: float = setting(0.0, "smallest change that counts as an improvement", least=0, was="least_change")
    minutes: float | None = setting(None, "time limit in minutes, at which the schedule ends; none: no limit", above=0)


@dataclass(frozen=True)
class Recipe:
    name: str = setting("", "name of the recipe and its runs; default: the file's name")
    task: str = setting("", "task")
    about: str = setting("", "one-line description for the list of recipes")
    start: str | None = setting(
        None, "run to start from: its weights, tokenizer and model shape; or a recipe, which is trained first"
    )
    data: Any = None
    model: ModelSpec = field(default_factory=ModelSpec)
    train: TrainSpec = field(default_factory=TrainSpec)

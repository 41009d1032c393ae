"""A recipe: a task with its data, a model and a training plan, in one TOML file and one tree of dataclasses.

    task = "parity"
    [data]      # the task's own settings, see headway/tasks
    [model]
    [train]

This file is the whole list of what can be set, with its defaults.
"""

from dataclasses import dataclass, field
from typing import Any

from headway.config.settings import setting


@dataclass(frozen=True)
class ModelSpec:
    """Names of parts may carry options: ``rotary(base=500)``."""

    layers: int = setting(2, "how many blocks; 0, and no positions: a bag of tokens", least=0)
    encoder_layers: int | None = setting(None, "of an encoder below a decoder; none: as many as layers", least=0)
    width: int = setting(64, "how many numbers a token is", least=1)
    heads: int = setting(4, "attention heads; the width is split among them", least=1)
    kv_heads: int | None = setting(None, "heads of keys and values; none: as many as heads", least=1, was="key_heads")
    hidden: int | None = setting(None, "width inside the feed-forward network; none: 4 times the width", least=1)
    embedding: str = setting("lookup", "from tokens to vectors; or a file or run of word vectors to begin with")
    position: str = setting("sinusoidal", "how order comes in")
    encoder_position: str | None = setting(None, "in an encoder below a decoder; none: the same")
    mixer: str = setting("attention", "how tokens look at each other")
    encoder_mixer: str | None = setting(None, "in an encoder below a decoder; none: the same")
    shared: bool = setting(True, "whether encoder and decoder share an embedding, if they have one vocabulary")
    attention: str = setting("soft", "how attention weighs")
    qk_norm: str = setting("none", "norm of each query and key", was="head_norm")
    feedforward: str = setting("gelu", "the network at each token")
    norm: str = setting("pre", "where the norm stands")
    norm_kind: str = setting("layernorm", "what the norm is")
    embedding_norm: bool = setting(False, "whether the embeddings with their positions have a norm, too")
    bias: bool = setting(True, "whether the matrices of the blocks have one")
    head: str = setting("tied", "what scores tokens")
    init: str = setting("parts", "how the first weights of the blocks are drawn")
    causal: bool = setting(
        False, "whether the tokens of an encoder see only those before them, as those of a decoder do"
    )
    pooling: str = setting("mean", "from the states of a sequence to one vector")
    token_dropout: float = setting(0.0, "the share of whole tokens that are dropped in training", least=0, below=1)
    dropout: float = setting(0.0, "on the embeddings and after every sublayer", least=0, below=1)
    head_dropout: float = setting(0.0, "on the one vector that the classes are read from", least=0, below=1)
    attention_dropout: float = setting(0.0, "on the attention weights; slow on a CPU", least=0, below=1)


@dataclass(frozen=True)
class TrainSpec:
    seed: int = setting(1, "of the data, the first weights, the order and the dropout", least=0)
    steps: int = setting(1000, "updates of the weights", least=1)
    epochs: float | None = setting(
        None, "passes over the data, in place of steps; none: as many as the steps give", above=0
    )
    batch_size: int = setting(64, "examples in an update at most", least=1, was="batch")
    batch_tokens: int | None = setting(
        None, "tokens in an update at most, of texts of like length; none: no limit", least=1, was="tokens"
    )
    freeze: str = setting("", "what does not learn: the beginnings of names of weights, such as encoder.embedding")
    layer_decay: float = setting(
        1.0, "the learning rate of a block is that of the one above times this", least=0, most=1
    )
    accumulate: int = setting(1, "work through a batch in this many parts: less memory, the same result", least=1)
    optimizer: str = setting("adamw", "how gradients become updates")
    learning_rate: float = setting(1e-3, "what the schedule is multiplied by", least=0)
    weight_decay: float = setting(0.01, "of matrices; biases, norms and numbers are left alone", least=0)
    schedule: str = setting("linear", "the learning rate over the steps")
    warmup: int = setting(100, "steps until the peak of the schedule", least=0)
    average: str = setting("none", "which mean of the weights over the steps is evaluated and kept")
    grad_clip: float | None = setting(1.0, "largest norm of the gradient; none: as it comes", above=0, was="clip")
    precision: str = setting("fp32", "of the arithmetic", choices=("fp32", "bf16", "fp16"))
    compile: str = setting(
        "nothing",
        "by torch, for a GPU: the blocks alone take seconds at first, the whole loss longer and is faster",
        choices=("nothing", "blocks", "loss"),
    )
    cuda_graphs: bool = setting(
        False, "on a GPU, record the kernels of a step for each shape of a batch, and play them back", was="recorded"
    )
    device: str = setting("auto", "where to compute", choices=("auto", "cpu", "cuda", "mps"))
    threads: int | None = setting(None, "of the CPU; none: as many as there are cores", least=1)
    processes: int = setting(1, "that share each batch, one a device", least=1)
    log_every: int = setting(20, "steps between lines of metrics", least=1)
    evaluate_every: int = setting(200, "steps between evaluations", least=1)
    checkpoint_every: int = setting(500, "steps between checkpoints", least=1)
    stop_on: str = setting("loss", "what early stopping and the best weights go by, on the validation data")
    patience: int | None = setting(None, "evaluations without a gain before stopping; none: never stop", least=1)
    min_delta: float = setting(0.0, "what a gain must be more than", least=0, was="least_change")
    minutes: float | None = setting(None, "stop after this time; none: no limit", above=0)


@dataclass(frozen=True)
class Recipe:
    name: str = setting("", "what runs are called after; left out: the file's name")
    task: str = setting("", "what is learned")
    about: str = setting("", "one line for the list of recipes")
    start: str | None = setting(
        None,
        "a run to begin with: its weights, its tokens and its shape; or a recipe, which is then trained first",
    )
    data: Any = None
    model: ModelSpec = field(default_factory=ModelSpec)
    train: TrainSpec = field(default_factory=TrainSpec)

"""The parts of models. Each maps (batch, time, width) to (batch, time, width); the ``Context`` argument is optional."""

from headway.nn.attend import ATTENTION_FUNCTIONS, attend, hard, soft
from headway.nn.attention import CrossAttention, SelfAttention, watch_attention
from headway.nn.block import (
    NORMS,
    PLACEMENTS,
    Block,
    LayerNorm,
    NoNorm,
    Plain,
    PostNorm,
    PreNorm,
    ReZero,
    RMSNorm,
)
from headway.nn.context import Context
from headway.nn.dropout import drop, drop_tokens
from headway.nn.embedding import EMBEDDINGS, Embedding, NGrams, OneHot, Region
from headway.nn.feedforward import FEEDFORWARDS, FeedForward, Gated, Neighbourhood
from headway.nn.init import INITS
from headway.nn.pooling import POOLINGS
from headway.nn.positions import POSITIONS, T5, Alibi, Learned, Position, Relative, Rotary, Sinusoidal
from headway.nn.recurrent import MIXERS, Recurrent, gru, lstm, rnn
from headway.nn.state import State

__all__ = [
    "ATTENTION_FUNCTIONS",
    "EMBEDDINGS",
    "FEEDFORWARDS",
    "INITS",
    "MIXERS",
    "NORMS",
    "PLACEMENTS",
    "POOLINGS",
    "POSITIONS",
    "T5",
    "Alibi",
    "Block",
    "Context",
    "CrossAttention",
    "Embedding",
    "FeedForward",
    "Gated",
    "LayerNorm",
    "Learned",
    "NGrams",
    "Neighbourhood",
    "NoNorm",
    "OneHot",
    "Plain",
    "Position",
    "PostNorm",
    "PreNorm",
    "RMSNorm",
    "ReZero",
    "Recurrent",
    "Region",
    "Relative",
    "Rotary",
    "SelfAttention",
    "Sinusoidal",
    "State",
    "attend",
    "drop",
    "drop_tokens",
    "gru",
    "hard",
    "lstm",
    "rnn",
    "soft",
    "watch_attention",
]

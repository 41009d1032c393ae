"""Mixers: how tokens learn of each other."""

from collections.abc import Callable

from torch import nn

from headway.nn.attention import SelfAttention
from headway.nn.recurrent import gru, lstm, rnn

MIXERS: dict[str, Callable[..., nn.Module]] = {"attention": SelfAttention, "rnn": rnn, "lstm": lstm, "gru": gru}

"""Normalisation over the width of each token.

- layernorm: (x - mean) / sqrt(variance + eps) * weight + bias (Ba et al. 2016, https://arxiv.org/abs/1607.06450)
- rmsnorm: x / sqrt(mean(x^2) + eps) * weight (Zhang & Sennrich 2019, https://arxiv.org/abs/1910.07467)
- none: x
"""

from torch import nn


class LayerNorm(nn.LayerNorm):
    def __init__(self, width: int, eps: float = 1e-5):
        super().__init__(width, eps)


class RMSNorm(nn.RMSNorm):
    def __init__(self, width: int, eps: float = 1e-6):
        super().__init__(width, eps)


class NoNorm(nn.Identity):
    pass


NORMS = {"layernorm": LayerNorm, "rmsnorm": RMSNorm, "none": NoNorm}

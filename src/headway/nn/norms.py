"""Normalisation over the width of each token.

- layernorm: (x - mean) / sqrt(variance + eps) * weight + bias (Ba et al. 2016, https://arxiv.org/abs/1607.06450)
- rmsnorm: x / sqrt(mean(x^2) + eps) * weight (Zhang & Sennrich 2019, https://arxiv.org/abs/1910.07467)
- none: x

Without a ``weight``, there is nothing to learn: the matrices that read the result have all that it could say.
"""

from torch import nn


class LayerNorm(nn.LayerNorm):
    def __init__(self, width: int, eps: float = 1e-5, weight: bool = True):
        super().__init__(width, eps, elementwise_affine=weight)


class RMSNorm(nn.RMSNorm):
    def __init__(self, width: int, eps: float = 1e-6, weight: bool = True):
        super().__init__(width, eps, elementwise_affine=weight)


class NoNorm(nn.Identity):
    pass


NORMS = {"layernorm": LayerNorm, "rmsnorm": RMSNorm, "none": NoNorm}

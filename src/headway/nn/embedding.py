"""From tokens to vectors.

``lookup`` picks a row of a matrix; ``onehot`` multiplies the token's one-hot vector by that matrix. They are the same
function with the same gradient, since the row is all that the product leaves over; looking it up is faster.

The matrix starts with a mean square of 1/D and its rows are multiplied by sqrt(D) (Vaswani et al. 2017, section 3.4):
so the vectors start at size 1, and the same matrix, tied, serves as the last one of a model of tokens.
"""

import math

from torch import Tensor, nn
from torch.nn import functional as F


class Embedding(nn.Module):
    def __init__(self, vocabulary: int, width: int):
        super().__init__()
        self.vocabulary, self.width = vocabulary, width
        self.table = nn.Embedding(vocabulary, width)
        nn.init.normal_(self.table.weight, std=width**-0.5)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.table(tokens) * math.sqrt(self.width)


class OneHot(Embedding):
    def forward(self, tokens: Tensor) -> Tensor:
        onehot = F.one_hot(tokens, self.vocabulary).to(self.table.weight.dtype)
        return onehot @ self.table.weight * math.sqrt(self.width)


EMBEDDINGS = {"lookup": Embedding, "onehot": OneHot}

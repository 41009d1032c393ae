"""The order of the data: a function of the seed and the step, not a state.

So a run that is resumed at a step goes on with exactly the examples that it would have seen.
"""

from functools import lru_cache

import numpy as np


def rows_at(step: int, count: int, batch: int, seed: int) -> np.ndarray:
    """Which of ``count`` examples make up the batch of ``step`` (1, 2, ...): each epoch is a shuffle of its own."""
    in_epoch = -(-count // batch)
    epoch, place = divmod(step - 1, in_epoch)
    return shuffle(count, seed, epoch)[place * batch : (place + 1) * batch]


@lru_cache(maxsize=4)
def shuffle(count: int, seed: int, epoch: int) -> np.ndarray:
    return np.random.default_rng([seed, epoch]).permutation(count)

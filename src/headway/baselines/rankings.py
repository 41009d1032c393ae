"""A baseline for reward models: each word has a weight, and the reward of an answer is their sum.

The weights are those of Bradley & Terry: p(A is better than B) = σ(reward(A) - reward(B)), which is a logistic
regression on the differences of the counts.
"""

from collections.abc import Sequence

import numpy as np

from headway.baselines.documents import Words
from headway.baselines.ngrams import Ngrams

PENALTY = 1.0


class WordRewards:
    def __init__(self, answers: Sequence[str], better: np.ndarray, worse: np.ndarray):
        """``better`` and ``worse`` are the indices of the answers of each pair."""
        from scipy import sparse
        from sklearn.linear_model import LogisticRegression

        self.words = Words()
        documents = self.words.learn(answers)
        self.ngrams = Ngrams(documents, 1, min_df=1)
        counts = self.ngrams.counts(documents).log1p()
        differences = counts[better] - counts[worse]
        both = sparse.vstack([differences, -differences])
        right = np.repeat([1, 0], len(better))
        model = LogisticRegression(C=PENALTY, fit_intercept=False, max_iter=300)
        self.weights = model.fit(both, right).coef_[0]

    def rewards(self, answers: Sequence[str]) -> np.ndarray:
        return self.ngrams.counts(self.words.read(answers)).log1p() @ self.weights

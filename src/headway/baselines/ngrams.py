"""N-grams of documents as columns of a sparse matrix, counted without a loop over words.

An n-gram is known by the column of its first n - 1 words and its last word, so each order is one sort of whole numbers.
Only what is in at least ``min_df`` documents has a column; an n-gram can only have one if its first words do.

TF-IDF is that of scikit-learn with ``sublinear_tf``: (1 + ln tf) · (1 + ln((1 + N) / (1 + df))), and each row has norm
1.
"""

from typing import Any

import numpy as np

from headway.baselines.documents import UNKNOWN, Documents

Matrix = Any  # of scipy, which has no types


class Ngrams:
    """The n-grams of up to ``longest`` words in these documents: a column for each, shorter ones first."""

    def __init__(self, documents: Documents, longest: int, min_df: int = 2):
        self.base = int(documents.words.max(initial=0)) + 1
        self.codes: list[np.ndarray] = []  # of each order, sorted
        owners, ids = documents.owners, np.zeros(len(documents.words), np.int64)
        frequencies = []
        for order in range(1, longest + 1):
            places, codes = self.codes_at(documents, owners, ids, order)
            by_code = np.argsort(codes, kind="stable")  # those of a document stay together
            codes, own = codes[by_code], owners[places[by_code]]
            is_new = np.diff(codes, prepend=-1) != 0
            groups = np.cumsum(is_new) - 1
            df = np.bincount(groups[is_new | (np.diff(own, prepend=-1) != 0)], minlength=0)
            often = df >= min_df
            columns = np.where(often, np.cumsum(often) - 1, UNKNOWN)
            ids = np.full(len(ids), UNKNOWN)
            ids[places[by_code]] = columns[groups]
            self.codes.append(codes[is_new][often])
            frequencies.append(df[often])
        self.df, self.documents = np.concatenate(frequencies), len(documents)

    def codes_at(
        self, documents: Documents, owners: np.ndarray, ids: np.ndarray, order: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Where an n-gram of this order may end, and its code there; ``ids`` are of those of one word less."""
        is_known = (documents.words != UNKNOWN) & (documents.words < self.base)
        if order > 1:
            is_known[1:] &= (ids[:-1] != UNKNOWN) & (owners[1:] == owners[:-1])
            is_known[:1] = False
        places = np.flatnonzero(is_known)
        words = documents.words[places]
        return places, words if order == 1 else ids[places - 1] * self.base + words

    def __len__(self) -> int:
        return len(self.df)

    def width(self, longest: int) -> int:
        """The number of columns of n-grams of up to so many words."""
        return sum(len(codes) for codes in self.codes[:longest])

    def counts(self, documents: Documents) -> Matrix:
        """(N, columns): how often each document has each n-gram."""
        from scipy import sparse

        owners, ids = documents.owners, np.zeros(len(documents.words), np.int64)
        columns, rows, first = [], [], 0
        for order, known in enumerate(self.codes, start=1):
            places, codes = self.codes_at(documents, owners, ids, order)
            by_code = np.argsort(codes)  # a search in order is far quicker
            at = np.minimum(np.searchsorted(known, codes[by_code]), max(len(known) - 1, 0))
            hits = known[at] == codes[by_code] if len(known) else np.zeros(len(at), bool)
            ids = np.full(len(ids), UNKNOWN)
            ids[places[by_code]] = np.where(hits, at, UNKNOWN)
            own = ids != UNKNOWN
            columns.append(ids[own] + first)
            rows.append(owners[own])
            first += len(known)
        both = np.concatenate(rows), np.concatenate(columns)
        matrix = sparse.csr_matrix((np.ones(len(both[0])), both), shape=(len(documents), len(self)))
        matrix.sum_duplicates()
        return matrix

    def tfidf(self, counts: Matrix, longest: int) -> Matrix:
        """(N, columns of up to so many words): weighted, with rows of norm 1."""
        weighted = counts[:, : self.width(longest)].tocsr()
        idf = np.log((1 + self.documents) / (1 + self.df[: weighted.shape[1]])) + 1
        weighted.data = (1 + np.log(weighted.data)) * idf[weighted.indices]
        return normalized(weighted)


def normalized(matrix: Matrix) -> Matrix:
    """With rows of norm 1; one without entries stays as it is."""
    norms = np.sqrt(np.asarray(matrix.multiply(matrix).sum(axis=1)).ravel())
    matrix.data /= np.repeat(norms, np.diff(matrix.indptr))
    return matrix

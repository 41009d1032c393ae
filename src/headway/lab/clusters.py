"""Groups of vectors by their directions: k-means, and how far apart the groups are."""

import numpy as np

STARTS, ROUNDS = 10, 50
SAME = 1e-6  # two vectors that are no farther apart differ by how they were rounded


def directions(vectors: np.ndarray) -> np.ndarray:
    return vectors / np.maximum(np.linalg.norm(vectors, axis=-1, keepdims=True), 1e-12)


def grouped(vectors: np.ndarray, count: int) -> np.ndarray:
    """(N,): the group of each, so that they lie near the centres of their groups; the best of several starts, each of
    which takes centres as far apart as chance allows (Arthur & Vassilvitskii 2007)."""
    points, random = directions(vectors), np.random.default_rng(0)
    best, found = -np.inf, np.zeros(len(points), np.int64)
    for _ in range(STARTS):
        centres = points[[random.integers(len(points))]]
        while len(centres) < count:
            far = np.maximum(1 - (points @ centres.T).max(axis=1), 0) + 1e-12
            centres = np.concatenate([centres, points[[random.choice(len(points), p=far / far.sum())]]])
        for _ in range(ROUNDS):
            groups = (points @ centres.T).argmax(axis=1)
            sums = np.stack([points[groups == group].sum(axis=0) for group in range(count)])
            moved = np.where(np.linalg.norm(sums, axis=1, keepdims=True) > 0, directions(sums), centres)
            if np.array_equal(moved, centres):
                break
            centres = moved
        nearness = float((points @ centres.T).max(axis=1).sum())
        if nearness > best:
            best, found = nearness, groups
    return found


def silhouette(vectors: np.ndarray, groups: np.ndarray) -> float:
    """From -1 to 1: how much nearer each is to its own group than to the next one, by cosine (Rousseeuw 1987); one that
    is alone counts 0, and so does a single group."""
    units = directions(vectors.astype(np.float64))
    distances = np.maximum(1 - units @ units.T, 0)
    distances[distances < SAME] = 0
    members = np.stack([groups == group for group in np.unique(groups)])  # (K, N)
    if len(members) < 2:
        return 0.0
    sizes = members.sum(axis=1)
    to_groups = distances @ members.T  # (N, K) sums
    own = members.argmax(axis=0)
    rows = np.arange(len(groups))
    inside = to_groups[rows, own] / np.maximum(sizes[own] - 1, 1)
    means = to_groups / sizes
    means[rows, own] = np.inf
    outside = means.min(axis=1)
    scores = (outside - inside) / np.maximum(np.maximum(inside, outside), SAME)
    return float(np.where(sizes[own] > 1, scores, 0.0).mean())

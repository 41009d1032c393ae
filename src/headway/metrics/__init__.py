"""Scores of predictions, as sums and counts."""

"""Runs: their folders, training and resuming, warm starts, and pipelines of runs that need each other."""

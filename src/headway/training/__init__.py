"""Training: one loop that yields, optimizers, schedules, checkpoints and the metrics log."""

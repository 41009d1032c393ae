"""Training: one loop that yields, optimizers and schedules, checkpoints and records."""

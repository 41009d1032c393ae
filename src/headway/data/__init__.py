"""Text files and puzzles in, batches out."""

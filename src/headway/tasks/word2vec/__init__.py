"""Word vectors: skip-gram, CBOW and FastText."""

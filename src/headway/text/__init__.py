"""Text to tokens and back: normalisation, tokenizers, vocabularies, detokenization."""

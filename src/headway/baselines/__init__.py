"""Simple models that a network has to beat: counts and linear models, trained in seconds on one core.

They know neither tasks nor networks: documents, sequences of tokens or pairs of texts go in, and predictions come out.
Which of them a task has is an ability of it (tasks/abilities).
"""

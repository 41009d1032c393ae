"""The HTTP server: runs behind an API that the ``openai`` package and ``curl`` speak.

Two processes. The web process (``app``, ``security``, ``schemas``, ...) reads requests, checks them and writes answers;
it knows no model and does not import torch, so that no request blocks another one. The model process
(``model_process``, ``engine``, ``jobs``) holds the runs, and answers what has arrived together. Between them go lines
of JSON over a pipe (``link``). If the model process ends, a spare one, which has imported all, takes its place.
"""

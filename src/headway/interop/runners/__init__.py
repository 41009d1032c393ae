"""Runners: an export to ONNX has one of these beside it, as ``run.py``. They need no headway and no torch."""

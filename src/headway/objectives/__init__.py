"""Losses: functions of tensors that return a sum and a count."""

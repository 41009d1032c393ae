"""Losses: functions of tensors that give a sum and a count."""

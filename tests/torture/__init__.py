"""Torture: what must hold when a process is killed, a disk is full or a file is damaged. See docs/reliability.md."""

"""Configuration: the recipe dataclasses, how settings are read and checked, parts by name, and errors."""

"""What can be set: the dataclasses of a recipe, how they are read, parts by name, and errors."""

"""Studies of recipes and runs: look at a model's layers, check a recipe, compare variants, search for small ones."""

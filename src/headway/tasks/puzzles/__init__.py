"""Tasks whose data are generated."""

"""The public Python API; ``import headway as hw`` has all of it. The command line is a thin layer over these
functions."""

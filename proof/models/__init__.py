"""Models of what must hold whatever happens when, checked exhaustively by Spin: see `docs/proof.md`, "Models".

*.pml       the models, each with its mutations (#ifdef)
README.md   which SQL and Python does each of their transitions
tables.py   reads those tables, and the names in the models
checker.py  runs Spin and gcc
"""

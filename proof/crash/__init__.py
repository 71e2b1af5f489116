"""Real deaths: of workers, of the database, of its disk and its lines, over a night's orders. See `docs/proof.md`."""

"""Proofs that others can run: simulation, models, deaths, upgrades, a soak. See `docs/proof.md`."""

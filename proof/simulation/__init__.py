"""A deterministic simulation: the real tick and the real SQL, in virtual time, among everything that can go wrong.

A seed is a night in which orders, ticks, operators, schedules and vendors meet faults that the seed draws. All of it
runs in one thread, over one connection and in one transaction that is rolled back: the same seed is the same night.
"""

"""Arguments of the commands of proofs that count something."""

import argparse


def count(text: str) -> int:
    """Return the number. Raise ArgumentTypeError below 1: a proof of nothing would find nothing."""
    if not text.isdecimal() or not 1 <= int(text[:20]) <= 10**9:
        raise argparse.ArgumentTypeError(f"{text} is not a number from 1 to 1000000000")
    return int(text)

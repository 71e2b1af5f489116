"""Changes of a text, which fail where the text is no longer what they were written for."""

import re


def replaced(text: str, old: str, new: str) -> str:
    """Replace text that occurs once. Raise AssertionError if it does not: the proof has to follow the code."""
    assert text.count(old) == 1, f"{old!r} occurs {text.count(old)} times, not once: adapt proof/upgrade"
    return text.replace(old, new)


def with_constant(text: str, name: str, value: int) -> str:
    """Set an integer constant, like `CODE_VERSION = 1`, to another value."""
    changed, count = re.subn(rf"(?m)^{name} = \d+$", f"{name} = {value}", text)
    assert count == 1, f"{name} is set {count} times, not once: adapt proof/upgrade"
    return changed

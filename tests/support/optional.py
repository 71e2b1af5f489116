"""Parts that a machine may lack: tests that need one are skipped there, but never on CI, which installs all."""

import os
from typing import NoReturn

import pytest


def lacks(missing: str) -> NoReturn:
    """Skip the test, with what is missing and how to get it; on CI, fail."""
    if os.environ.get("CI"):
        pytest.fail(missing)
    pytest.skip(missing)

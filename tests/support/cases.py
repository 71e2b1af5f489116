"""The tables of the contract, as data."""

import json
from pathlib import Path
from typing import Any

CASES: dict[str, Any] = json.loads(Path(__file__).with_name("cases.json").read_text(encoding="utf-8"))

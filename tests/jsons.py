"""JSON documents of which one part is another."""

from __future__ import annotations

import json
from typing import Any


def changed(text: str, where: str, value: object) -> str:
    """Return a document with one part set, or without it if the value is the part's name; dots lead to the part."""
    found: Any = json.loads(text)
    *path, name = where.split(".")
    part = found
    for step in path:
        part = part[int(step)] if step.isdigit() else part[step]
    if value == name:
        del part[name]
    else:
        part[int(name) if name.isdigit() else name] = value
    return json.dumps(found)

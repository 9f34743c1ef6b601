"""The ConfigMap in which the admitter keeps what it knows of nodes: which ones have refused pods, and their boots."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

CLOSED: Final = "closed"
"""Its key: a JSON list of objects with `node`, `namespace` (whose jobs do not start there; empty: all) and `said`."""
BOOTS: Final = "boots"
"""Its key: by node, the first letters of its bootID, and when it was first reported, where a boot before is known."""


def shunned_nodes(data: Mapping[str, str]) -> dict[str, str]:
    """The nodes on which no job starts, and what each has said. What cannot be read is left out.

    Args:
        data: of the ConfigMap.
    """
    try:
        rows = json.loads(data.get(CLOSED, "[]"))
    except (ValueError, RecursionError):
        return {}
    found = [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
    return {str(row["node"]): str(row.get("said", "")) for row in found if row.get("node") and not row.get("namespace")}

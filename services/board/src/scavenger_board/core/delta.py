"""What is different between two pictures: what a page is sent that has the older one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from scavenger_board.core.picture import Picture

KEYS: Final[dict[str, Callable[[Any], str]]] = {
    "nodes": lambda row: str(row.name),
    "queues": lambda row: str(row.name),
    "jobs": lambda row: str(row.key),
    "timeline": lambda row: str(row.id),
    "services": lambda row: str(row.name),
    "pools": lambda row: str(row.name),
}
"""The tables, and by what their rows are known."""

PLAIN: Final = ("levels", "admission", "unknown", "findings", "meanings")


def delta(old: Picture | None, new: Picture) -> dict[str, Any] | None:
    """The whole picture under `whole`, or by table the rows that are new or changed and, under `order`, the keys of all
    where rows came, went or changed places; None where nothing is different but the time."""
    if old is None or old.past != new.past:
        return {"whole": new}
    changed: dict[str, Any] = {name: getattr(new, name) for name in PLAIN if getattr(old, name) != getattr(new, name)}
    if old.waiting_pods != new.waiting_pods:
        changed["waitingPods"] = new.waiting_pods
    for name, key in KEYS.items():
        table = _table(getattr(old, name), getattr(new, name), key)
        if table:
            changed[name] = table
    return {"time": new.time, "changed": changed} if changed else None


def _table(old: Sequence[Any], new: Sequence[Any], key: Callable[[Any], str]) -> dict[str, Any]:
    before = {key(row): row for row in old}
    table: dict[str, Any] = {}
    rows = [row for row in new if before.get(key(row)) != row]
    if rows:
        table["rows"] = rows
    order = [key(row) for row in new]
    if order != list(before):
        table["order"] = order
    return table

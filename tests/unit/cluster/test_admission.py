"""How the API server of the embedded cluster finds the webhook."""

from __future__ import annotations

import yaml
from scavenger_cluster import admission, stack


def test_a_url_takes_the_place_of_the_service_and_nothing_else_changes() -> None:
    text = (stack.MANIFESTS / "webhook" / "configurations.yaml").read_text()
    shipped = list(yaml.safe_load_all(text))
    found = list(yaml.safe_load_all(admission.by_url(text, "https://127.0.0.1:9443", b"PEM")))

    assert len(found) == len(shipped) == 2
    for before, after in zip(shipped, found, strict=True):
        for old, new in zip(before["webhooks"], after["webhooks"], strict=True):
            path = old["clientConfig"].pop("service")["path"]
            assert new.pop("clientConfig") == {"url": f"https://127.0.0.1:9443{path}", "caBundle": "UEVN"}
            assert old.pop("clientConfig") == {}
        assert before == after

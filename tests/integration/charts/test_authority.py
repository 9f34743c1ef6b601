"""The webhook's certificate authority: made by helm, kept by upgrades, replaced while one is always trusted."""

from __future__ import annotations

import base64
import json
import time

import pytest
from scavenger_cluster import Cluster

from .conftest import SYSTEM, Helm, get

pytestmark = [pytest.mark.cpu, pytest.mark.timeout(900), pytest.mark.long]  # images are built and unpacked

AUTHORITY = "scavenger-webhook-authority"
NOBODY = ("--set=replicas=0", "--set=admission.quotas=true", "--set=pods.defaulting=webhook")
"""The webhook without pods, and with a configuration of each kind."""


def authority(cluster: Cluster) -> dict[str, bytes]:
    """What the Secret of the authority holds."""
    data = get(cluster, "secret", AUTHORITY, "-n", SYSTEM)["data"]
    return {name: base64.b64decode(value) for name, value in data.items()}


def trusted(cluster: Cluster) -> bytes:
    """The caBundle of all webhooks."""
    found = get(cluster, "mutatingwebhookconfigurations,validatingwebhookconfigurations")["items"]
    hooks = [hook for o in found if o["metadata"]["name"] == "scavenger-webhook" for hook in o["webhooks"]]
    (bundle,) = {hook["clientConfig"]["caBundle"] for hook in hooks}
    assert len(hooks) == 3
    return base64.b64decode(bundle)


def step(cluster: Cluster, helm: Helm, name: str, *, soon: bool = False) -> dict[str, bytes]:
    """Take a step of the rotation, long after the one before."""
    if not soon:
        ago = ("scavenger.dev/rotation-step-at=1000000000", "--overwrite")
        cluster.kubectl("annotate", "secret", AUTHORITY, "-n", SYSTEM, *ago)
    helm.install("webhook", *NOBODY, f"--set=authority.rotation={name}", "--force-conflicts")
    return authority(cluster)


def test_the_authority_of_the_webhook_is_kept_by_upgrades_and_replaced_in_three_steps(
    cluster: Cluster, helm: Helm
) -> None:
    helm.install("webhook", *NOBODY)
    first = authority(cluster)
    assert set(first) == {"ca.crt", "ca.key"}
    assert trusted(cluster) == first["ca.crt"]
    helm.install("webhook", *NOBODY, "--set=labels.team=batch")
    assert (authority(cluster), trusted(cluster)) == (first, first["ca.crt"]), "kept"
    for nothing_to_do in ("promote", "retire"):
        assert step(cluster, helm, nothing_to_do) == first

    prepared = step(cluster, helm, "prepare")
    assert prepared == first | {name: prepared[name] for name in ("next-ca.crt", "next-ca.key")}
    assert prepared["next-ca.key"] != first["ca.key"]
    assert trusted(cluster) == first["ca.crt"] + prepared["next-ca.crt"]
    assert step(cluster, helm, "prepare", soon=True) == prepared, "the same again"
    # Just now, and for so long that no machine is too slow to be too soon.
    ahead = (f"scavenger.dev/rotation-step-at={int(time.time()) + 3600}", "--overwrite")
    cluster.kubectl("annotate", "secret", AUTHORITY, "-n", SYSTEM, *ahead)
    too_soon = helm.refused(*helm.installation("webhook", *NOBODY, "--set=authority.rotation=promote"))
    assert "seconds ago; wait until it is 120" in too_soon

    promoted = step(cluster, helm, "promote")
    assert promoted == {
        "ca.crt": prepared["next-ca.crt"],
        "ca.key": prepared["next-ca.key"],
        "previous-ca.crt": first["ca.crt"],
    }
    assert trusted(cluster) == promoted["ca.crt"] + first["ca.crt"]
    retired = step(cluster, helm, "retire")
    assert retired == {name: promoted[name] for name in ("ca.crt", "ca.key")}
    assert trusted(cluster) == retired["ca.crt"]
    helm.uninstall("webhook", "--no-hooks")
    assert AUTHORITY not in cluster.kubectl("get", "secrets", "-n", SYSTEM, "-o", "name")


def test_an_authority_that_is_not_trusted_yet_is_not_promoted(cluster: Cluster, helm: Helm) -> None:
    """An upgrade that stopped between the Secret and the configurations."""
    helm.install("webhook", *NOBODY)
    prepared = step(cluster, helm, "prepare")
    path = "/webhooks/0/clientConfig/caBundle"
    patch = json.dumps([{"op": "replace", "path": path, "value": base64.b64encode(prepared["ca.crt"]).decode()}])
    cluster.kubectl("patch", "validatingwebhookconfiguration", "scavenger-webhook", "--type=json", f"--patch={patch}")
    ago = ("scavenger.dev/rotation-step-at=1000000000", "--overwrite")
    cluster.kubectl("annotate", "secret", AUTHORITY, "-n", SYSTEM, *ago)
    promote = helm.installation("webhook", *NOBODY, "--set=authority.rotation=promote", "--force-conflicts")
    assert "does not trust the next authority yet" in helm.refused(*promote)
    assert step(cluster, helm, "prepare") == prepared
    assert step(cluster, helm, "promote")["ca.crt"] == prepared["next-ca.crt"]
    helm.uninstall("webhook", "--no-hooks")


def test_an_authority_that_the_webhook_made_is_trusted_until_it_is_retired(cluster: Cluster, helm: Helm) -> None:
    """As earlier releases had it, in the Secret of their webhook."""
    old = b"-----BEGIN CERTIFICATE-----\nQQ==\n-----END CERTIFICATE-----\n"
    cluster.kubectl(
        "create", "secret", "generic", "scavenger-webhook-tls", "-n", SYSTEM, f"--from-literal=ca.crt={old.decode()}"
    )
    helm.install("webhook", *NOBODY, "--force-conflicts")
    moved = authority(cluster)
    assert moved["previous-ca.crt"] == old
    cluster.kubectl("delete", "secret", "scavenger-webhook-tls", "-n", SYSTEM)
    retired = step(cluster, helm, "retire")
    assert retired == {name: moved[name] for name in ("ca.crt", "ca.key")}
    helm.uninstall("webhook", "--no-hooks")

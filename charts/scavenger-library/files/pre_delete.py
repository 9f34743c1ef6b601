"""Before a service is removed for good: stop it, then remove what it has published.

    pre_delete.py NAMESPACE DEPLOYMENT [COLLECTION NAME...] [-- RESOURCE...]

Scales the Deployment to 0 and waits until its last pod has ended; then deletes the objects of these names, from the
collection's namespace, or from all of them where a label says that it manages them, and takes these extended resources
off the nodes. Runs in the service's own image, under its own account: the standard library is all there is to rely on.
"""

import json
import os
import ssl
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


def request(method, path, body=None):
    """Ask the API server; None where there is no such object. Raises urllib.error.HTTPError."""
    host, port = os.environ["KUBERNETES_SERVICE_HOST"], os.environ["KUBERNETES_SERVICE_PORT"]
    host = f"[{host}]" if ":" in host else host
    headers = {
        "Authorization": "Bearer " + (ACCOUNT / "token").read_text().strip(),
        "Content-Type": "application/merge-patch+json" if method == "PATCH" else "application/json",
    }
    data = None if body is None else json.dumps(body).encode()
    ask = urllib.request.Request(f"https://{host}:{port}{path}", data, headers, method=method)
    trust = ssl.create_default_context(cafile=ACCOUNT / "ca.crt")
    try:
        with urllib.request.urlopen(ask, timeout=30, context=trust) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        if error.code == 404:
            return None
        print(f"{method} {path}: {error.code} {error.read().decode(errors='replace')}", file=sys.stderr)
        raise


def stop(namespace, deployment, request=request, sleep=time.sleep):
    """Scale the Deployment to 0 and wait until none of its pods runs any more."""
    path = f"/apis/apps/v1/namespaces/{namespace}/deployments/{deployment}/scale"
    request("PATCH", path, {"spec": {"replicas": 0}})
    pods = f"/api/v1/namespaces/{namespace}/pods?labelSelector=app.kubernetes.io/name={deployment}"
    while True:
        left = [pod["metadata"]["name"] for pod in request("GET", pods)["items"] if running(pod)]
        if not left:
            return
        print("waiting for", *left, flush=True)
        sleep(1)


def running(pod):
    """A pod whose containers have not all ended."""
    return pod.get("status", {}).get("phase") not in ("Succeeded", "Failed")


def delete(manager, collection, *names, request=request):
    """Delete the objects of a collection that have one of these names; in all namespaces those of this manager."""
    for name in names:
        if "/namespaces/" in collection:
            remove(f"{collection}/{name}", request)
            continue
        root, _, plural = collection.rpartition("/")
        query = f"fieldSelector=metadata.name={name}&labelSelector=app.kubernetes.io/managed-by={manager}"
        for item in request("GET", f"{collection}?{query}")["items"]:
            remove(f"{root}/namespaces/{item['metadata']['namespace']}/{plural}/{name}", request)


def remove(path, request):
    """Delete one object, if it is there."""
    if request("DELETE", path) is not None:
        print("deleted", path, flush=True)


def withdraw(*resources, request=request):
    """Take extended resources off the nodes that show them. Where that is not allowed (any more), say so and go on."""
    gone = dict.fromkeys(resources)
    try:
        for node in showing(resources, request):
            path = f"/api/v1/nodes/{node}/status"
            request("PATCH", path, {"status": {"capacity": gone, "allocatable": gone}})
            print("taken off", path, flush=True)
    except urllib.error.HTTPError as error:
        if error.code != 403:
            raise
        print("left", *resources, "on nodes: not allowed to take them off", flush=True)


def showing(resources, request):
    """The names of the nodes that show one of these resources, a page of the list at a time."""
    page = ""
    while True:
        nodes = request("GET", f"/api/v1/nodes?limit=200&continue={page}")
        for node in nodes["items"]:
            status = node.get("status", {})
            if any(name in status.get(kind, {}) for kind in ("capacity", "allocatable") for name in resources):
                yield node["metadata"]["name"]
        page = nodes["metadata"].get("continue", "")
        if not page:
            return


def main(words):
    """What the command line asks for."""
    cut = words.index("--") if "--" in words else len(words)
    stop(*words[:2])
    if cut > 2:
        delete(*words[1:cut])
    if words[cut + 1 :]:
        withdraw(*words[cut + 1 :])


if __name__ == "__main__":
    main(sys.argv[1:])

"""The programs of the cluster, built from pinned Go modules and kept in a cache outside the checkout."""

from __future__ import annotations

import dataclasses
import hashlib
import os
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from scavenger_cluster.errors import ClusterError, CommandError, MissingRequirementError
from scavenger_cluster.layout import cache_dir
from scavenger_cluster.locking import locked
from scavenger_cluster.shell import find_program, run

KUBERNETES_VERSION = "v1.36.3"
HELM_VERSION = "v4.3.1"
METRICS_SERVER_VERSION = "v0.9.0"

Report = Callable[[str], None]


@dataclasses.dataclass(frozen=True)
class Tool:
    """A program to build: its Go package, the module (folder under go/) that pins it, what to stamp in."""

    name: str
    package: str
    module: str = "."
    stamp: tuple[tuple[str, str], ...] = ()


def _kubernetes(name: str, package: str = "", module: str = ".") -> Tool:
    _, minor, _ = KUBERNETES_VERSION.split(".")
    stamp = [
        (f"{stamped}.{key}", value)
        for stamped in ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
        for key, value in (("gitVersion", KUBERNETES_VERSION), ("gitMajor", "1"), ("gitMinor", minor))
    ]
    return Tool(name, package or f"k8s.io/kubernetes/cmd/{name}", module, tuple(stamp))


# In dependency order: kube-apiserver compiles nearly everything that the ones after it share.
CLUSTER_TOOLS = (
    Tool("pause", "./pause"),
    Tool("etcd", "go.etcd.io/etcd/server/v3"),
    _kubernetes("kube-apiserver"),
    _kubernetes("kube-controller-manager"),
    _kubernetes("kube-scheduler"),
    _kubernetes("scavenger-scheduler", "./cmd/scavenger-scheduler", "scheduler"),
    _kubernetes("kubectl"),
    _kubernetes("kubelet"),
    _kubernetes("kube-proxy"),
    Tool("kwok", "sigs.k8s.io/kwok/cmd/kwok"),
)
EXTRA_TOOLS = (
    Tool("coredns", "./", "coredns"),
    Tool(
        "metrics-server",
        "sigs.k8s.io/metrics-server/cmd/metrics-server",
        "metrics-server",
        (("k8s.io/client-go/pkg/version.gitVersion", METRICS_SERVER_VERSION),),
    ),
    Tool(
        "helm",
        "helm.sh/helm/v4/cmd/helm",
        "helm",
        (("helm.sh/helm/v4/internal/version.version", HELM_VERSION),),
    ),
)
TOOLS = {tool.name: tool for tool in (*CLUSTER_TOOLS, *EXTRA_TOOLS)}


def go_dir() -> Path:
    """Return the folder with the go.mod files: in the package when installed, else in the checkout."""
    installed = Path(__file__).parent / "go"
    return installed if installed.is_dir() else Path(__file__).parents[2] / "go"


def module_dir(module: str) -> Path:
    """Return the folder of a module: under go/, but for the scheduler's, which a checkout has among the services."""
    folder = go_dir() / module
    return folder if folder.is_dir() else Path(__file__).parents[3] / "services" / module


def ensure_tools(names: Iterable[str], report: Report) -> dict[str, Path]:
    """Return the path of each program, building what the cache does not have; reports one line per build."""
    wanted = [tool for tool in TOOLS.values() if tool.name in set(names)]
    if unknown := set(names) - {tool.name for tool in wanted}:
        raise ClusterError(f"cannot build {', '.join(sorted(unknown))}; known are: {', '.join(TOOLS)}")
    go = Go.find()
    paths = {tool.name: go.cached(tool) for tool in wanted}
    if all(path.exists() for path in paths.values()):
        return paths
    with locked(cache_dir() / "build.lock", lambda: report("waiting for another build to finish")):
        missing = [tool for tool in wanted if not paths[tool.name].exists()]
        for number, tool in enumerate(missing, 1):
            started = time.monotonic()
            report(f"[{number}/{len(missing)}] building {tool.name} …")
            go.build(tool)
            report(f"[{number}/{len(missing)}] {tool.name} … {time.monotonic() - started:.0f} s")
    return paths


@dataclasses.dataclass(frozen=True)
class Go:
    """A Go toolchain that is new enough."""

    program: str
    version: str

    @classmethod
    def find(cls) -> Go:
        """Find Go and check its version; MissingRequirementError says what to do when there is none."""
        program = find_program("go") or find_program("/usr/local/go/bin/go")
        needed = needed_go((go_dir() / "go.mod").read_text())
        if program is None:
            raise MissingRequirementError(
                f"the cluster's programs are built with Go {needed} or newer, and no `go` was found on PATH. "
                "Install it from https://go.dev/dl/, or (Debian) `apt-get install golang-go` of a release "
                "with at least Go 1.21, which then fetches the right toolchain by itself."
            )
        try:
            version = run([program, "env", "GOVERSION"], cwd=go_dir(), env=os.environ).strip()
        except CommandError as error:
            raise MissingRequirementError(
                f"{program} is too old or may not switch toolchains: Go {needed} or newer is needed. Go 1.21 "
                "and later fetch it by themselves with GOTOOLCHAIN=auto; older ones (Debian 12 has 1.19) "
                f"must be replaced, see https://go.dev/dl/\n{error.output}"
            ) from error
        if go_numbers(version) < go_numbers(needed):
            raise MissingRequirementError(
                f"{program} is {version}; Go {needed} or newer is needed, see https://go.dev/dl/"
            )
        return cls(program, version)

    def cached(self, tool: Tool) -> Path:
        """Return where the cache keeps a program; the folder name covers everything that goes into it."""
        module = module_dir(tool.module)
        digest = hashlib.sha256(repr((tool, self.version)).encode())
        inputs = [module / "go.mod", module / "go.sum"]
        if tool.package.startswith("./"):
            own = [*(module / tool.package).glob("*.go"), *(module / "pkg").rglob("*.go")]
            inputs += sorted(file for file in own if not file.name.endswith("_test.go"))
        for file in inputs:
            digest.update(file.read_bytes())
        return cache_dir() / "bin" / digest.hexdigest()[:16] / tool.name

    def build(self, tool: Tool) -> None:
        """Build a program into the cache; it appears there whole or not at all."""
        target = self.cached(tool)
        target.parent.parent.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(dir=target.parent.parent, prefix=".build-"))
        flags = " ".join(["-s", "-w", *(f"-X {variable}={value}" for variable, value in tool.stamp)])
        argv = [self.program, "build", "-mod=readonly", "-buildvcs=false", "-trimpath", "-ldflags", flags]
        env = {**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "", "GOWORK": "off"}
        try:
            run(
                [*argv, "-o", scratch / tool.name, tool.package],
                cwd=module_dir(tool.module),
                env=env,
                timeout=3600,
            )
            target.parent.mkdir(exist_ok=True)
            (scratch / tool.name).replace(target)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)


def needed_go(go_mod: str) -> str:
    """Read the Go version a go.mod asks for."""
    match = re.search(r"^go (\S+)$", go_mod, re.MULTILINE)
    if match is None:
        raise ClusterError("go.mod has no go line")
    return match.group(1)


def go_numbers(version: str) -> tuple[int, ...]:
    """Turn `go1.26.8` or `1.26` into numbers that compare."""
    return tuple(int(number) for number in re.findall(r"\d+", version)[:3])

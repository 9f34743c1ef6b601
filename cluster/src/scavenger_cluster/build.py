"""The programs of the cluster, built from pinned Go modules and kept in a cache outside the checkout.

All of them but the scheduler with the plugin are in one module graph (go/go.mod), and what that one shares with them is
pinned to the same versions in its own. So what several programs need is compiled once: `go build` is asked for all that
are missing at the same time, and links one while it compiles the next.
"""

from __future__ import annotations

import dataclasses
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import groupby
from pathlib import Path
from typing import Final

from scavenger_cluster import other_version
from scavenger_cluster.compiling import LIST_FORMAT, Compilation, in_words, weights
from scavenger_cluster.errors import ClusterError, CommandError, MissingRequirementError
from scavenger_cluster.layout import cache_dir
from scavenger_cluster.locking import locked
from scavenger_cluster.shell import find_program, run

PINNED_KUBERNETES: Final = "v1.37.1"
KUBERNETES_VERSION: Final = other_version.chosen(PINNED_KUBERNETES)
HELM_VERSION = "v4.3.1"
WAITING: Final = "waiting for programs that are being compiled already"
"""By this command, for its images, or by another one."""
CORE_SECONDS: Final = 1300
"""What all programs of a demo take to compile with nothing in Go's cache, measured on two cores."""
METRICS_SERVER_VERSION = "v0.9.0"

PROGRESS_SECONDS = 15.0
"""Between two lines on how far a build is."""

COMPILER_FLAGS: Final = ("-mod=readonly", "-trimpath", "-gcflags=all=-dwarf=false")
"""Of everything that is to share compiled packages, as services/scheduler/build.sh says them too. The linker leaves
debugging information out: to make none saves a seventh of the time that compiling takes.
"""
GO_SETTINGS: Final[Mapping[str, str]] = {"CGO_ENABLED": "0", "GOFLAGS": " ".join(COMPILER_FLAGS), "GOWORK": "off"}
"""Variables of the environment of a Go command that is to share the compiled packages of the programs."""

OTHER_VERSION: Final = "kubernetes"
"""The module of Kubernetes' programs where another version is asked for than the pinned one."""

Report = Callable[[str], None]


@dataclasses.dataclass(frozen=True)
class Tool:
    """A program to build: its Go package, the module (folder under go/) that pins it, what to stamp in."""

    name: str
    package: str
    module: str = "."
    stamp: tuple[tuple[str, str], ...] = ()

    @property
    def output(self) -> str:
        """What `go build` calls the program: the last element of its package that is no version."""
        elements = [element for element in self.package.split("/") if not re.fullmatch(r"v\d+", element)]
        return elements[-1]

    @property
    def link_flags(self) -> str:
        """The linker's flags, for this package alone."""
        stamps = (f"-X {variable}={value}" for variable, value in self.stamp)
        return f"{self.package}={' '.join(['-s', '-w', *stamps])}"


def _kubernetes(name: str) -> Tool:
    module = "." if KUBERNETES_VERSION == PINNED_KUBERNETES else OTHER_VERSION
    return Tool(name, f"k8s.io/kubernetes/cmd/{name}", module, _stamp(KUBERNETES_VERSION))


def _stamp(version: str) -> tuple[tuple[str, str], ...]:
    _, minor, _ = version.split(".")
    return tuple(
        (f"{stamped}.{key}", value)
        for stamped in ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
        for key, value in (("gitVersion", version), ("gitMajor", "1"), ("gitMinor", minor))
    )


CLUSTER_TOOLS = (
    Tool("pause", "./pause"),
    Tool("etcd", "go.etcd.io/etcd/server/v3"),
    _kubernetes("kube-apiserver"),
    _kubernetes("kube-controller-manager"),
    _kubernetes("kube-scheduler"),
    Tool("scavenger-scheduler", "./cmd/scavenger-scheduler", "scheduler", _stamp(PINNED_KUBERNETES)),
    _kubernetes("kubectl"),
    _kubernetes("kubelet"),
    _kubernetes("kube-proxy"),
    Tool("kwok", "sigs.k8s.io/kwok/cmd/kwok"),
)
EXTRA_TOOLS = (
    Tool("coredns", "./coredns"),
    Tool(
        "metrics-server",
        "sigs.k8s.io/metrics-server/cmd/metrics-server",
        stamp=(("k8s.io/client-go/pkg/version.gitVersion", METRICS_SERVER_VERSION),),
    ),
    Tool(
        "helm",
        "helm.sh/helm/v4/cmd/helm",
        stamp=(("helm.sh/helm/v4/internal/version.version", HELM_VERSION),),
    ),
)
TEST_TOOLS = (
    Tool("kube-state-metrics", "k8s.io/kube-state-metrics/v2", "tests"),
    Tool("registry", "github.com/distribution/distribution/v3/cmd/registry", "registry"),
)
"""What tests run beside a cluster; of modules of their own, as they need other versions of libraries."""
TOOLS = {tool.name: tool for tool in (*CLUSTER_TOOLS, *EXTRA_TOOLS, *TEST_TOOLS)}
SNAPSHOT: Final = Tool("scavenger-snapshot", "./cmd/scavenger-snapshot", "snapshot")
"""For programs and not for clusters, so it is built where somebody asks for it by name."""


def go_dir() -> Path:
    """Return the folder with the go.mod files: in the package when installed, else in the checkout."""
    installed = Path(__file__).parent / "go"
    return installed if installed.is_dir() else Path(__file__).parents[2] / "go"


def module_dir(module: str) -> Path:
    """Return the folder of a module: under go/, but for those of the scheduler and of snapshots, which are parts of a
    checkout themselves."""
    if module == OTHER_VERSION:
        return other_version.folder(KUBERNETES_VERSION)
    checkout = Path(__file__).parents[3]
    folders = (go_dir() / module, checkout / "services" / module)
    return next((folder for folder in folders if folder.is_dir()), checkout / module)


def ensure_tools(names: Iterable[str], report: Report) -> dict[str, Path]:
    """Return the path of each program, building what the cache does not have; reports one line per build."""
    wanted = _known(names)
    go = Go.find()
    _ensure_modules(go, wanted, report)
    paths = {tool.name: go.cached(tool) for tool in wanted}
    if all(path.exists() for path in paths.values()):
        return paths
    with locked(cache_dir() / "build.lock", lambda: report(WAITING)):
        missing = [tool for tool in wanted if not paths[tool.name].exists()]
        for module, tools in groupby(sorted(missing, key=lambda tool: tool.module), key=lambda tool: tool.module):
            go.build(module, list(tools), report)
    return paths


def _known(names: Iterable[str]) -> list[Tool]:
    known, chosen = {**TOOLS, SNAPSHOT.name: SNAPSHOT}, set(names)
    if unknown := chosen - set(known):
        raise ClusterError(f"cannot build {', '.join(sorted(unknown))}; known are: {', '.join(known)}")
    return [tool for tool in known.values() if tool.name in chosen]


def expected(names: Iterable[str]) -> str:
    """What is ahead of the first use of these programs, in words; empty where the cache has them all."""
    go = Go.find()
    with suppress(FileNotFoundError):  # the module of another version of Kubernetes is made first as well
        if all(go.cached(tool).exists() for tool in _known(names)):
            return ""
    cores = os.cpu_count() or 1
    return f"it is built from source first: up to {in_words(CORE_SECONDS / cores)} on {cores} cores, and once only"


def _ensure_modules(go: Go, wanted: Sequence[Tool], report: Report) -> None:
    """Make the module of another version of Kubernetes, if it is needed and not there."""
    if not any(tool.module == OTHER_VERSION for tool in wanted):
        return
    with locked(cache_dir() / "build.lock", lambda: report(WAITING)):
        packages = [tool.package for tool in TOOLS.values() if tool.module == OTHER_VERSION]
        other_version.ensure(go.program, needed_go((go_dir() / "go.mod").read_text()), KUBERNETES_VERSION, packages)


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

    def build(self, module: str, tools: Sequence[Tool], report: Report) -> None:
        """Build programs of one module into the cache; each appears there whole or not at all. CommandError."""
        folder = cache_dir() / "bin"
        folder.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(dir=folder, prefix=".build-"))
        names = ", ".join(tool.name for tool in tools)
        began = time.monotonic()
        try:
            self.compile(module_dir(module), tools, scratch, report)
            for tool in tools:
                target = self.cached(tool)
                target.parent.mkdir(exist_ok=True)
                (scratch / tool.output).replace(target)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
        report(f"built {names} in {time.monotonic() - began:.0f} s")

    def compile(self, folder: Path, tools: Sequence[Tool], scratch: Path, report: Report) -> None:
        """Compile and link programs of the module in a folder; CommandError.

        Args:
            folder: where the module is.
            tools: the programs.
            scratch: the folder that they are written to, each by the name of its `output`.
            report: gets lines on how far it is.
        """
        env = {**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "", "GOWORK": "off", **_compiler_memory()}
        packages = [tool.package for tool in tools]
        flags = [*COMPILER_FLAGS, "-buildvcs=false"]
        report(f"building {', '.join(tool.name for tool in tools)}: reading what they are made of …")
        listing = [self.program, "list", *flags, "-deps", "-f", LIST_FORMAT, *packages]
        compilation = Compilation(weights(run(listing, cwd=folder, env=env, timeout=1800)), len(tools))
        links = [f"-ldflags={tool.link_flags}" for tool in tools]
        # What compiles while a cluster runs lets it go first.
        command = ["nice", self.program, "build", "-v", *flags, *links, "-o", f"{scratch}/", *packages]
        _follow(command, folder, env, compilation, report)


def _compiler_memory() -> dict[str, str]:
    """Return the environment of a compiler that does not collect garbage before it has used its share of the memory.

    That saves a tenth of the CPU time, measured on k8s.io/api and k8s.io/apimachinery: 103 s instead of 112.
    """
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {"GOGC": "off", "GOMEMLIMIT": f"{total // (4 * (os.cpu_count() or 1)) >> 20}MiB"}


def _follow(command: list[str], folder: Path, env: Mapping[str, str], compilation: Compilation, report: Report) -> None:
    """Run `go build -v` and tell how far it is; CommandError with what else it said when it fails."""
    began = told = time.monotonic()
    said: deque[str] = deque(maxlen=60)
    report(f"compiling {len(compilation.sources)} packages; the first time that takes minutes, then it is cached")
    with subprocess.Popen(
        command, cwd=folder, env=env, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, errors="replace"
    ) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if not compilation.begin(line.strip()):
                said.append(line.rstrip())
            if time.monotonic() - told >= PROGRESS_SECONDS:
                told = time.monotonic()
                report(compilation.describe(told - began))
    if process.returncode:
        raise CommandError(command[1:3], process.returncode, "\n".join(said))


def needed_go(go_mod: str) -> str:
    """Read the Go version a go.mod asks for."""
    match = re.search(r"^go (\S+)$", go_mod, re.MULTILINE)
    if match is None:
        raise ClusterError("go.mod has no go line")
    return match.group(1)


def go_numbers(version: str) -> tuple[int, ...]:
    """Turn `go1.26.8` or `1.26` into numbers that compare."""
    return tuple(int(number) for number in re.findall(r"\d+", version)[:3])

#!/usr/bin/env bash
# Builds the scheduler as one static program: build.sh OUTPUT [VERSION OF KUBERNETES]
# Without a version, from the modules that go.mod pins, with the flags of the embedded cluster's programs, so that compiled
# packages are shared in Go's build cache. With one (v1.36.3), for clusters that are older: see matrix.sh.
set -euo pipefail
output=$(realpath -m -- "${1:?usage: build.sh OUTPUT [VERSION OF KUBERNETES]}")
cd "$(dirname "$0")"
version=${2:-$(sed -nE 's/^\tk8s\.io\/kubernetes (v[0-9.]+).*/\1/p' go.mod)}
modules=(-mod=readonly)
if [ -n "${2:-}" ]; then
  scratch=$(mktemp -d)
  trap 'rm -rf "$scratch"' EXIT
  ./older.sh "$version" "$scratch/go.mod"
  modules=(-mod=mod "-modfile=$scratch/go.mod" "-tags=kubernetes_${version:1:1}_$(cut -d. -f2 <<<"$version")")
fi
IFS=. read -r _ minor _ <<<"$version"
stamp=()
for package in k8s.io/component-base/version k8s.io/client-go/pkg/version; do
  stamp+=("-X $package.gitVersion=$version" "-X $package.gitMajor=1" "-X $package.gitMinor=$minor")
done
CGO_ENABLED=0 GOFLAGS='' GOWORK=off go build -p 2 "${modules[@]}" -buildvcs=false -trimpath -gcflags=all=-dwarf=false \
  -ldflags "-s -w ${stamp[*]}" -o "$output" ./cmd/scavenger-scheduler

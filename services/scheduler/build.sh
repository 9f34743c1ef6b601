#!/usr/bin/env bash
# Builds the scheduler as one static program: build.sh OUTPUT
# The flags are those of the embedded cluster's programs, so that compiled packages are shared in Go's build cache.
set -euo pipefail
output=$(realpath -m -- "${1:?usage: build.sh OUTPUT}")
cd "$(dirname "$0")"
version=$(sed -nE 's/^\tk8s\.io\/kubernetes (v[0-9.]+).*/\1/p' go.mod)
IFS=. read -r _ minor _ <<<"$version"
stamp=()
for package in k8s.io/component-base/version k8s.io/client-go/pkg/version; do
  stamp+=("-X $package.gitVersion=$version" "-X $package.gitMajor=1" "-X $package.gitMinor=$minor")
done
CGO_ENABLED=0 GOFLAGS='' GOWORK=off go build -p 2 -mod=readonly -buildvcs=false -trimpath -gcflags=all=-dwarf=false \
  -ldflags "-s -w ${stamp[*]}" -o "$output" ./cmd/scavenger-scheduler

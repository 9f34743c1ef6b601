#!/usr/bin/env bash
# Builds the scheduler for older versions of Kubernetes, and runs its tests with each: matrix.sh [VERSION...]
# Each takes minutes, as little of one version can be used for the other. docs/scheduler.md has what came of it.
set -euo pipefail
cd "$(dirname "$0")"
[ $# -gt 0 ] || set -- v1.36.3 v1.35.4
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
for version; do
  tag=kubernetes_1_$(cut -d. -f2 <<<"$version")
  ./build.sh "$scratch/$version" "$version"
  ./older.sh "$version" "$scratch/go.mod"
  CGO_ENABLED=0 GOFLAGS='' GOWORK=off go test -p 2 -mod=mod -modfile="$scratch/go.mod" -tags="$tag" \
    -trimpath -gcflags=all=-dwarf=false -timeout 15m ./pkg/...
  echo "$version: $("$scratch/$version" --version), $(stat -c %s "$scratch/$version") bytes"
done

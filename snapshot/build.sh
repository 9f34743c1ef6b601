#!/usr/bin/env bash
# Builds snap as one static program: build.sh OUTPUT
set -euo pipefail
output=$(realpath -m -- "${1:?usage: build.sh OUTPUT}")
cd "$(dirname "$0")"
CGO_ENABLED=0 GOFLAGS='' GOWORK=off go build -p 2 -mod=readonly -buildvcs=false -trimpath -gcflags=all=-dwarf=false \
  -ldflags '-s -w' -o "$output" ./cmd/scavenger-snapshot

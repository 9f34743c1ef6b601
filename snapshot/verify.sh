#!/usr/bin/env bash
# Formatting, vet, staticcheck and the tests. The race detector sees what decides (it needs a C compiler), not gVisor's
# kernel, which it cannot follow. `verify.sh long` interrupts each program 20 times.
set -euo pipefail
cd "$(dirname "$0")"
export GOWORK=off
unformatted=$(gofmt -l cmd pkg)
[ -z "$unformatted" ] || { echo "gofmt -w these: $unformatted" >&2; exit 1; }
export GOFLAGS=-mod=readonly
go mod tidy -diff
CGO_ENABLED=1 go test -p 2 -race -trimpath -timeout 5m ./pkg/generation ./pkg/keeper
# With the flags that the program is built with: the same compiled packages serve.
export CGO_ENABLED=0 GOFLAGS='-mod=readonly -trimpath -gcflags=all=-dwarf=false'
go vet -p 2 ./...
go tool staticcheck ./...
[ "${1:-}" != long ] || export SNAPSHOT_INTERRUPTIONS=20
go test -p 1 -count=1 -timeout 60m ./pkg/engine ./cmd/scavenger-snapshot

#!/usr/bin/env bash
# Formatting, vet, staticcheck, and the tests with the race detector (which needs a C compiler).
# The first run compiles Kubernetes' packages twice, plain and instrumented; after that Go's build cache has them.
set -euo pipefail
cd "$(dirname "$0")"
export GOFLAGS=-mod=readonly GOWORK=off
unformatted=$(gofmt -l cmd pkg)
[ -z "$unformatted" ] || { echo "gofmt -w these: $unformatted" >&2; exit 1; }
go mod tidy -diff
# With the flags that the programs are built with: the same compiled packages serve.
compiler=(CGO_ENABLED=0 GOFLAGS='-mod=readonly -trimpath -gcflags=all=-dwarf=false')
env "${compiler[@]}" go vet -p 2 ./...
env "${compiler[@]}" go tool staticcheck ./...
CGO_ENABLED=1 go test -p 2 -race -trimpath -timeout 15m ./...

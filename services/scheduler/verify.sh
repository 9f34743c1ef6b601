#!/usr/bin/env bash
# Formatting, vet, staticcheck and the tests; `verify.sh race`: the tests with the race detector, which compiles all of
# Kubernetes' packages a second time. What has passed before with the same content does not run (--again: it does).
set -euo pipefail
cd "$(dirname "$0")/../.."
exec tools/uv run --frozen --quiet python -m tools.go_checks services/scheduler "$@"

#!/usr/bin/env bash
# Formatting, vet, staticcheck and the tests; `verify.sh race`: those of what decides with the race detector; `verify.sh
# long`: more programs, each interrupted 20 times. What has passed before with the same content does not run (--again: it does).
set -euo pipefail
cd "$(dirname "$0")/.."
exec tools/uv run --frozen --quiet python -m tools.go_checks snapshot "$@"

#!/usr/bin/env bash
# Writes a go.mod with which this module is built from another version of Kubernetes: older.sh VERSION FILE
# It says no more than that version: the others follow from what Kubernetes itself pins.
set -euo pipefail
version=${1:?usage: older.sh VERSION FILE} file=${2:?usage: older.sh VERSION FILE}
cd "$(dirname "$0")"
staging=v0.${version#v1.}
theirs=$(GOFLAGS='' GOWORK=off go mod download -json "k8s.io/kubernetes@$version" | sed -nE 's/^\t"GoMod": "(.*)",/\1/p')
{
  sed -nE '/^(module|go) /p' go.mod
  echo "require k8s.io/kubernetes $version"
  sed -nE "s|^\t(k8s\.io/[a-z-]+) => \./staging/.*|replace \1 => \1 $staging|p" "$theirs"
} >"$file"

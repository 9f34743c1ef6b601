#!/usr/bin/env bash
# Build the image of a service, or of a demo application in Python (tuner):
#
#     services/build-image.sh SERVICE [IMAGE]       default: localhost/scavenger/SERVICE:VERSION, that of pyproject.toml
#
#     PYTHON_VERSION   of the base image, 3.12 by default; 3.11 on Debian bookworm
#     BASE             base image; by default the one named in the Containerfile, by its tag. For a release name it by
#                      digest: BASE=docker.io/library/python@sha256:…
#     BUILDER          docker, podman or buildah, the first that is found; none: only prepare the build context,
#                      dist/image/SERVICE, which then holds all that its Containerfile needs
set -euo pipefail

service=${1:?usage: services/build-image.sh SERVICE [IMAGE]}
root=$(cd "$(dirname "$0")/.." && pwd)
version=$(sed -nE 's/^version = "(.*)"$/\1/p' "$root/pyproject.toml")
image=${2:-localhost/scavenger/$service:$version}
context=$root/dist/image/$service
machine=$(uname -m)
platform=${machine/arm64/aarch64}-manylinux_2_28  # the image is Linux, whatever runs here
uv=$root/tools/uv
[[ -x $uv ]] || uv=uv

find_builder() {
    for program in docker podman buildah; do
        if command -v "$program" >/dev/null; then
            echo "$program"
            return
        fi
    done
    echo "no docker, podman or buildah found; BUILDER=none prepares $context" >&2
    return 1
}

cd "$root"
rm -rf "$context"
mkdir -p "$context"
folder=services/$service
[[ -d $folder ]] || folder=demo-apps/$service
cp "$folder/Containerfile" "$context/"
"$uv" export --quiet --frozen --no-dev --no-editable --package "scavenger-$service" --format requirements-txt \
    --output-file "$context/requirements.txt" >/dev/null
# uv takes a package of ours as built before for as long as its pyproject.toml is the same.
ours=()
for name in api checkpoint domain kube runtime "$service"; do ours+=("--refresh-package=scavenger-$name"); done
# For the base image's Python, not for the one that runs here; the hashes of uv.lock are checked.
"$uv" pip install --quiet --target "$context/app" --python-version "${PYTHON_VERSION:-3.12}" \
    --python-platform "$platform" --link-mode copy --no-deps --requirements "$context/requirements.txt" \
    "${ours[@]}"
rm -rf "$context/requirements.txt" "$context/app/bin" "$context/app/.lock"
# Where, when and by whom it was built is nobody's business, and would make two images of the same commit differ.
rm -f "$context"/app/*.dist-info/{direct_url.json,uv_cache.json,RECORD}
chmod -R u=rwX,go=rX "$context"

builder=${BUILDER:-$(find_builder)}
if [[ $builder != none ]]; then
    [[ ${BASE:-} == *@sha256:* ]] || echo "note: the base image is named by tag, not by digest; set BASE for a release" >&2
    "$builder" build --tag "$image" ${BASE:+--build-arg "BASE=$BASE"} --file "$context/Containerfile" "$context"
fi

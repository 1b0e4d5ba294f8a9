#!/usr/bin/env bash
# Build a container image with $BUILD_IMAGE, a command that takes the same arguments, or else with
# docker (if its engine runs), podman or buildah.
# usage: build-image.sh NAME DOCKERFILE CONTEXT [build options…]
set -euo pipefail

if [ $# -lt 3 ]; then
    sed -n 4p "$0" >&2
    exit 2
fi
name=$1 dockerfile=$2 context=$3
options=("${@:4}" --tag "$name" --file "$dockerfile" "$context")

# Podman and Buildah prefer OCI's image format, which has no health checks.
docker_format=(--layers --format docker)

if [ -n "${BUILD_IMAGE:-}" ]; then
    read -ra build <<<"$BUILD_IMAGE"
    "${build[@]}" "$@"
elif docker info >/dev/null 2>&1; then
    docker build "${options[@]}"
elif command -v podman >/dev/null; then
    podman build "${docker_format[@]}" "${options[@]}"
elif command -v buildah >/dev/null; then
    buildah build "${docker_format[@]}" "${options[@]}"
else
    echo "build-image.sh: docker, podman or buildah is needed to build $name" >&2
    exit 1
fi

#!/usr/bin/env bash
# Builds the last commit in two folders, once with an empty build cache, and compares the bytes.
set -euo pipefail
cd "$(git -C "$(dirname "${BASH_SOURCE[0]}")" rev-parse --show-toplevel)"
version=$(git describe --tags --always) commit=$(git rev-parse --short HEAD)
work=$(mktemp -d)
trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT

build() { # FOLDER: prints the hash of the binary
  mkdir -p "$work/$1"
  git archive HEAD | tar -x -C "$work/$1"
  make -s -C "$work/$1" build VERSION="$version" COMMIT="$commit" >&2
  sha256sum <"$work/$1/bin/ocr-proxy" | cut -d' ' -f1
}

first=$(GOCACHE=$work/cache build first)
second=$(build another/folder)
if [ "$first" != "$second" ]; then
  echo "reproducible: $first in one folder, $second in the other" >&2
  exit 1
fi
echo "reproducible: $version is $first, $(stat -c %s "$work/first/bin/ocr-proxy") bytes, $(go env GOVERSION) $(go env GOOS)/$(go env GOARCH)"

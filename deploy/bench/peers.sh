#!/usr/bin/env bash
# The proxy between a load generator and a fake provider, in turn with nginx, HAProxy, Caddy and bare reverse proxies in Go. PEERS is the folder
# of that benchmark; what this script is given is passed on to it (-quick). Figures stay in BENCH_OUT.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
peers=${PEERS:-$root/../shared/bench}
if [ ! -x "$peers/run.sh" ]; then
  echo "peers.sh: $peers/run.sh is not here; PEERS names the folder of the benchmark" >&2
  exit 1
fi
export BENCH_OUT=${BENCH_OUT:-$(mktemp -d)}
mkdir -p "$BENCH_OUT/dead-letters" "$BENCH_OUT/bodies"
(cd "$root" && CGO_ENABLED=0 go build -trimpath -ldflags '-s -w' -o "$BENCH_OUT/ocr-proxy" ./cmd/ocr-proxy)
export OCR_PROXY_CMD="env OCR_PROXY_DEAD_LETTERS_DIR=$BENCH_OUT/dead-letters OCR_PROXY_BODY_DIR=$BENCH_OUT/bodies $BENCH_OUT/ocr-proxy serve --config $root/deploy/bench/ocr-proxy.yaml"
export OCR_PROXY_URL=http://127.0.0.1:19107/ocr
"$peers/run.sh" "$@"
cd "$root" && go run ./internal/peers "$BENCH_OUT/cells"

#!/usr/bin/env bash
# Has the program show all of its metrics, and the tools of those who scrape it read them: promtool the text, and the strict OpenMetrics parser of
# Prometheus's client for Python, where Python can install it, the other format. The scrapes come from TestAScrapeOfEverything.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
parser=prometheus_client==0.26.0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

OCR_PROXY_SCRAPE_DIR=$work "${GO:-go}" test -count=1 -run '^TestAScrapeOfEverything$' ./cmd/ocr-proxy
[ -s "$work/metrics.txt" ] && [ -s "$work/openmetrics.txt" ]
promtool check metrics <"$work/metrics.txt"
echo "promtool check metrics: $(grep -c '^# TYPE ' "$work/metrics.txt") metrics, no complaint"

if ! { python3 -m venv "$work/venv" && "$work/venv/bin/pip" install -q --disable-pip-version-check "$parser"; } >"$work/pip.log" 2>&1; then
  printf '!!! Python could not install %s: THE OPENMETRICS FORMAT WAS NOT PARSED\n' "$parser"
  exit 0
fi
"$work/venv/bin/python" - "$work/openmetrics.txt" <<'PYTHON'
import sys
from prometheus_client.openmetrics.parser import text_string_to_metric_families

with open(sys.argv[1]) as f:
    families = list(text_string_to_metric_families(f.read()))
own = [f for f in families if f.name.startswith("ocrproxy_") and f.samples]
assert len(own) > 40, f"only {len(own)} metrics of the program"
assert any(s.exemplar for f in own for s in f.samples), "no exemplar"
print(f"OpenMetrics: {len(families)} metrics, no complaint")
PYTHON

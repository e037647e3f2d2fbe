#!/usr/bin/env bash
# A real Apache Tika Server with a real Tesseract behind the proxy: what it reads, what it cannot, and what becomes of a document over which it ends
# itself. Needs Java 17, Maven (which fetches the server, 66 MB), tesseract, curl and Go.
#
# TIKA_VERSION  another version of the server
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
version=${TIKA_VERSION:-3.2.2}
work=$(mktemp -d "${TMPDIR:-/tmp}/ocr-proxy-tika-XXXXXX")
started=()
end() {
  local pid
  for pid in ${started[@]+"${started[@]}"}; do kill "$pid" 2>/dev/null && wait "$pid" 2>/dev/null || true; done
  rm -rf "$work"
}
trap end EXIT
die() { printf 'tika: %s\n' "$*" >&2; exit 1; }
for tool in java mvn tesseract curl go; do command -v "$tool" >/dev/null || die "$tool is missing: install it first"; done

mvn -q -B dependency:copy -Dartifact="org.apache.tika:tika-server-standard:$version" -DoutputDirectory="$work" >"$work/mvn.log" 2>&1 || { tail -n 5 "$work/mvn.log"; die "Maven could not fetch the server"; }
jar=$work/tika-server-standard-$version.jar
[ -s "$jar" ] || die "no $jar"

until_up() { # URL
  local n
  for n in $(seq 300); do curl -fs -o /dev/null "$1" && return; sleep 0.2; done
  die "$1 does not come up"
}
serve_tika() { # PORT PARAMETERS
  printf '<properties><server><params><host>127.0.0.1</host><port>%s</port>%s</params></server></properties>' "$1" "$2" >"$work/$1.xml"
  java -jar "$jar" -c "$work/$1.xml" -h 127.0.0.1 -p "$1" >"$work/$1.log" 2>&1 &
  started+=($!)
  until_up "http://127.0.0.1:$1/version"
}
plain=${TIKA_PORT:-19981} hasty=$((${TIKA_PORT:-19981} + 1)) admin=$((${TIKA_PORT:-19981} + 2)) one=$((${TIKA_PORT:-19981} + 3)) two=$((${TIKA_PORT:-19981} + 4))
serve_tika "$plain" ''
serve_tika "$hasty" '<taskTimeoutMillis>100</taskTimeoutMillis><minimumTimeoutMillis>50</minimumTimeoutMillis><taskPulseMillis>50</taskPulseMillis>'

go build -o "$work/ocr-proxy" ./cmd/ocr-proxy
cat >"$work/config.yaml" <<YAML
admin: {listen: "127.0.0.1:$admin"}
dead_letters: {dir: $work/letters}
retry: {max_attempts: 2, base_delay: 1s}
providers:
  - {name: tika, kind: tika, listen: "127.0.0.1:$one", upstream: "http://127.0.0.1:$plain", auth: {type: none}}
  - {name: hasty, kind: tika, listen: "127.0.0.1:$two", upstream: "http://127.0.0.1:$hasty", auth: {type: none}}
YAML
"$work/ocr-proxy" serve --config "$work/config.yaml" 2>"$work/proxy.log" &
started+=($!)
until_up "http://127.0.0.1:$admin/readyz"

go run ./deploy/interop/page "Invoice of the harbour" >"$work/page.png"
printf '%%PDF-1.7\nnonsense' >"$work/broken.pdf"
head -c 10240 /dev/zero | tr '\0' '\251' >"$work/unknown.bin"

failed=0
call() { # WHAT OUTCOME CLASS PATTERN PORT CURL-ARGUMENTS...
  local what=$1 outcome=$2 class=$3 pattern=$4 port=$5
  shift 5
  : >"$work/body"
  curl -sS -m 120 -D "$work/head" -o "$work/body" -H 'Accept: application/json' "${@:2}" "http://127.0.0.1:$port$1" || true
  if grep -qi "^ocr-proxy-outcome: $outcome.\?$" "$work/head" && grep -qi "^ocr-proxy-class: $class.\?$" "$work/head" && { [ -z "$pattern" ] || grep -q "$pattern" "$work/body"; }; then
    printf 'pass  %s\n' "$what"
  else
    printf 'FAIL  %s\n' "$what"
    grep -i '^HTTP\|^ocr-proxy' "$work/head" || true
    head -c 300 "$work/body" && echo
    failed=1
  fi
}
call 'a picture is read' success success 'Invoice of the harbour' "$one" /tika/text -T "$work/page.png"
call 'the same as a form' success success 'Invoice of the harbour' "$one" /tika/form/text -F "upload=@$work/page.png"
call 'with all that is in it' success success 'Invoice of the harbour' "$one" /rmeta/text -T "$work/page.png"
call 'a broken document' permanent permanent '' "$one" /tika/text -T "$work/broken.pdf"
call 'a broken document inside a 200' permanent permanent container_exception "$one" /rmeta/text -T "$work/broken.pdf"
call 'a type that nobody knows' permanent permanent EmptyParser "$one" /tika/text -T "$work/unknown.bin"
call 'OCR without time' exhausted transient 'TesseractOCRParser timeout' "$one" /rmeta/text -T "$work/page.png" -H 'X-Tika-OCRTimeoutSeconds: 0'
call 'the server ends itself over a document' exhausted transient '' "$two" /tika/text -T "$work/page.png"
until_up "http://127.0.0.1:$hasty/version"
letters=$(find "$work/letters/open" -name '*.json' | wc -l)
[ "$letters" = 5 ] && echo 'pass  five letters, one for each of the last five' || { echo "FAIL  $letters letters instead of 5"; failed=1; }
"$work/ocr-proxy" dlq top --config "$work/config.yaml"
exit "$failed"

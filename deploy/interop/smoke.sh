#!/usr/bin/env bash
# Sends real pages with the real AWS SDKs for Python and JavaScript through ocr-proxy to a simulated Textract that reads
# them with tesseract and throttles hard. Nothing leaves this machine but the installation of the SDKs.
#
#   deploy/interop/smoke.sh [IMAGE...]
#
# INTEROP_DOCUMENTS  images, separated by spaces, instead of arguments; without either, pages that the program draws
# INTEROP_WORDS      words that must be among the recognised text; default for drawn pages only
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
work=$(mktemp -d "${TMPDIR:-/tmp}/ocr-proxy-interop-XXXXXX")
started=()
passed=0
failed=0

end() {
  local pid
  for pid in ${started[@]+"${started[@]}"}; do
    kill "$pid" 2>/dev/null || true
    wait "$pid" 2>/dev/null || true
  done
  rm -rf "$work"
}
trap end EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

say() { printf '\n== %s\n' "$*"; }
die() {
  printf 'interop: %s\n' "$*" >&2
  exit 1
}
pass() {
  passed=$((passed + 1))
  printf 'pass  %s\n' "$*"
}
fail() {
  failed=$((failed + 1))
  printf 'FAIL  %s\n' "$*"
}
# check WHAT COMMAND... passes when the command does.
check() {
  local what=$1
  shift
  if "$@"; then pass "$what"; else fail "$what"; fi
}

# Needs.
for tool in go curl python3 node npm; do
  command -v "$tool" >/dev/null || die "$tool is missing: install it first"
done
if ! command -v tesseract >/dev/null; then
  [[ $(id -u) == 0 ]] && command -v apt-get >/dev/null || die "tesseract is missing: install it, for example with 'sudo apt-get install tesseract-ocr'"
  say "installing tesseract"
  { apt-get update && apt-get install -y --no-install-recommends tesseract-ocr; } >"$work/apt.log" 2>&1 ||
    { tail -n 20 "$work/apt.log" >&2 && die "apt-get could not install tesseract-ocr"; }
fi

say "installing boto3 and @aws-sdk/client-textract, building ocr-proxy"
python3 -m venv "$work/venv" || die "python3 cannot make a virtual environment: install its venv module (python3-venv)"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check boto3
mkdir "$work/js"
cp "$here/detect.mjs" "$work/js/" # imports are looked up beside the file
npm install --prefix "$work/js" --silent --no-audit --no-fund @aws-sdk/client-textract >"$work/npm.log" 2>&1 ||
  { tail -n 20 "$work/npm.log" >&2 && die "npm could not install @aws-sdk/client-textract"; }
(cd "$root" && go build -o "$work/ocr-proxy" ./cmd/ocr-proxy)

# Documents.
"$work/ocr-proxy" demo --pages "$work/pages" --documents 3 >/dev/null
damaged=$work/pages/damaged.png
words=${INTEROP_WORDS:-}
if (($# > 0)); then
  documents=("$@")
elif [[ -n ${INTEROP_DOCUMENTS:-} ]]; then
  read -r -a documents <<<"$INTEROP_DOCUMENTS"
else
  documents=("$work/pages/lease-01.png" "$work/pages/invoice-02.png")
  words=${words:-lease tenant premises invoice payment}
fi
for d in "${documents[@]}"; do
  [[ -r $d ]] || die "cannot read the document $d"
done

# Provider and proxy.
export AWS_ACCESS_KEY_ID=interop AWS_SECRET_ACCESS_KEY=interop-secret AWS_REGION=us-east-1 AWS_DEFAULT_REGION=us-east-1 AWS_EC2_METADATA_DISABLED=true
export AWS_CONFIG_FILE=/dev/null AWS_SHARED_CREDENTIALS_FILE=/dev/null NO_PROXY=127.0.0.1 no_proxy=127.0.0.1
unset AWS_PROFILE AWS_SESSION_TOKEN AWS_ENDPOINT_URL AWS_ENDPOINT_URL_TEXTRACT
read -r provider_port proxy_port admin_port < <(python3 -c '
import socket
taken = [socket.create_server(("127.0.0.1", 0)) for _ in range(3)]
print(*(s.getsockname()[1] for s in taken))')
provider=http://127.0.0.1:$provider_port
proxy=http://127.0.0.1:$proxy_port
admin=http://127.0.0.1:$admin_port

cat >"$work/config.yaml" <<YAML
admin: {listen: "127.0.0.1:$admin_port"}
shutdown: {drain_timeout: 1s}
dead_letters: {dir: "$work/dead-letters"}
retry: {max_attempts: 15, total_budget: 90s, base_delay: 500ms, cap_delay: 4s}
providers:
  - name: textract
    kind: textract
    listen: "127.0.0.1:$proxy_port"
    upstream: "$provider"
    auth: {type: sigv4, region: us-east-1}
YAML

# until_up URL LOG waits for a server that was just started.
until_up() {
  local _
  for _ in {1..100}; do
    curl -fsS -o /dev/null "$1" 2>/dev/null && return
    kill -0 "${started[-1]}" 2>/dev/null || break
    sleep 0.1
  done
  cat "$2" >&2
  die "$1 does not answer"
}
say "starting a simulated Textract with tesseract, one call per second, and ocr-proxy before it"
"$work/ocr-proxy" sim --kind textract --engine tesseract --listen "127.0.0.1:$provider_port" --throttle 1 --burst 1 --retry-after 0 >"$work/sim.log" 2>&1 &
started+=($!)
until_up "$provider/__sim/stats" "$work/sim.log"
"$work/ocr-proxy" serve --config "$work/config.yaml" >"$work/proxy.log" 2>&1 &
started+=($!)
until_up "$admin/readyz" "$work/proxy.log"

# metric NAME TEXT adds up the series of that name whose labels contain the text.
metric() {
  curl -fsS "$admin/metrics" | awk -v name="$1" -v text="$2" 'index($0, name "{") == 1 && index($0, text) { sum += $NF } END { print sum + 0 }'
}

# contains WORD FILE looks for a word whatever its case.
contains() { grep -qiF -- "$1" "$2"; }

# show ID FILE writes a dead letter into a file.
show() { "$work/ocr-proxy" dlq show "$1" --dir "$work/dead-letters" >"$2"; }

# judge SDK LOG looks at what a client printed: the lines of text behind bars, then the fate of the damaged file.
judge() {
  local sdk=$1 log=$2 word line exception id
  grep '^  | ' "$log" >"$log.text" || true # the names of the files are not among what was read
  for word in $words; do
    check "$sdk: recognised \"$word\"" contains "$word" "$log.text"
  done
  line=$(grep '^damaged: ' "$log" || true)
  read -r _ exception id <<<"${line:-- none none}"
  case $exception in
    BadDocumentException | UnsupportedDocumentException) pass "$sdk: the damaged file raises the SDK's own $exception" ;;
    *) fail "$sdk: the damaged file raised $exception" ;;
  esac
  check "$sdk: its dead letter $id is there" show "$id" "$work/letter-$sdk.txt"
  check "$sdk: the letter names the exception" contains "$exception" "$work/letter-$sdk.txt"
}

# try SDK COMMAND... runs a client on all documents.
try() {
  local sdk=$1
  shift
  say "$sdk, its own retries off"
  if timeout 150 "$@" "$proxy" "$damaged" "${documents[@]}" >"$work/$sdk.log" 2>&1; then
    cat "$work/$sdk.log"
    pass "$sdk: every document has text"
  else
    cat "$work/$sdk.log"
    fail "$sdk: a document came back without text or with an error"
  fi
  judge "$sdk" "$work/$sdk.log"
}
try boto3 "$work/venv/bin/python" "$here/detect.py"
try sdk-js node --no-warnings "$work/js/detect.mjs"

say "what the proxy counted"
throttled=$(metric ocrproxy_attempts_total 'class="throttle"')
throttles=$(metric ocrproxy_throttles_total '')
saved=$(metric ocrproxy_retry_outcomes_total 'outcome="succeeded"')
letters=$(metric ocrproxy_dead_letters_written_total 'outcome="permanent"')
check "attempts_total counts throttled attempts: $throttled" test "$throttled" -gt 0
check "throttles_total agrees: $throttles" test "$throttles" -eq "$throttled"
check "requests saved by a retry: $saved" test "$saved" -gt 0
check "dead letters, all of them permanent: $letters" test "$letters" -gt 0 -a "$letters" -eq "$(metric ocrproxy_dead_letters_written_total '')"
check "nothing secret in the proxy's log" bash -c '! grep -qF -- "$1" "$2"' _ "$AWS_SECRET_ACCESS_KEY" "$work/proxy.log"

if ((failed > 0)); then
  printf '\nThe end of the proxy'\''s log:\n'
  tail -n 20 "$work/proxy.log"
fi
printf '\n%d passed, %d failed\n' "$passed" "$failed"
((failed == 0))

#!/usr/bin/env bash
# Calls a simulated provider through ocr-proxy with many real client libraries, meets each with the same faults, with the library's own retries on
# and off, and checks what the caller sees and what the provider charged. Nothing leaves this machine but the installation of the libraries.
#
#   deploy/interop/matrix.sh [--quick] [CLIENT...]
#
# Without arguments every client is run and the tables in docs/clients.md are written anew. --quick runs a few clients and faults and writes nothing.
#
# INTEROP_SCENARIOS  words of which only those scenarios are run
# INTEROP_HOME     folder in which the libraries are installed, kept for the next time; default: a temporary one
# INTEROP_RESULTS  file that results are added to, so that a run of single clients can complete an earlier one; tables are then written from all of it
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
work=$(mktemp -d "${TMPDIR:-/tmp}/ocr-proxy-matrix-XXXXXX")
home=${INTEROP_HOME:-$work/home}
results=${INTEROP_RESULTS:-$work/results.jsonl}
started=()
enough=45 # seconds; a client that still tries then is stopped, and the table says so

stop() {
  local pid
  for pid in ${started[@]+"${started[@]}"}; do
    kill "$pid" 2>/dev/null || true
    wait "$pid" 2>/dev/null || true
  done
  started=()
}
trap 'stop; rm -rf "$work"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

say() { printf '\n== %s\n' "$*"; }
die() {
  printf 'interop: %s\n' "$*" >&2
  exit 1
}
need() { command -v "$1" >/dev/null || die "$1 is missing: install it first"; }

# What is run. A client is a word; the driver's language follows from it.
all=(boto3 boto3-legacy azure-ai-documentintelligence azure-ai-formrecognizer google-cloud-documentai google-cloud-vision mistralai openai
  google-cloud-documentai-grpc google-cloud-vision-grpc
  js-textract js-document-intelligence js-mistral js-openai js-documentai js-vision js-documentai-grpc js-vision-grpc
  go-textract go-documentai go-documentai-grpc java-textract java-document-intelligence)
scenarios=(success throttle outage lost corrupt hangup down job job-lost)
quick=
if [[ ${1:-} == --quick ]]; then
  quick=yes
  shift
  all=(boto3 azure-ai-documentintelligence mistralai openai js-textract)
  scenarios=(success throttle corrupt)
fi
[[ ${INTEROP_SCENARIOS:-} ]] && read -r -a scenarios <<<"$INTEROP_SCENARIOS"
if (($# > 0)); then
  for name in "$@"; do
    [[ " ${all[*]} " == *" $name "* ]] || die "there is no client $name; there are: ${all[*]}"
  done
  clients=("$@")
else
  clients=("${all[@]}")
fi

for tool in go curl python3; do need "$tool"; done
mkdir -p "$home"
touch "$results"
say "building ocr-proxy"
(cd "$root" && go build -o "$work/ocr-proxy" ./cmd/ocr-proxy)
"$work/ocr-proxy" demo --pages "$work/pages" --documents 3 >/dev/null

# Installation, once for each language. Versions are the newest but where a name says otherwise.
# quietly WHAT COMMAND... shows what the command says only when it fails.
quietly() {
  local what=$1
  shift
  [[ -e $home/$what.done ]] && return
  say "installing $what"
  "$@" >"$work/install.log" 2>&1 || { tail -n 20 "$work/install.log" >&2 && die "$what could not be installed"; }
  touch "$home/$what.done"
}
# venv NAME PACKAGE...
venv() {
  local at=$home/$1
  shift
  python3 -m venv "$at" || die "python3 cannot make a virtual environment: install its venv module (python3-venv)"
  "$at/bin/pip" install --disable-pip-version-check "$@"
}
npm_packages() {
  mkdir -p "$home/js"
  npm install --prefix "$home/js" --no-audit --no-fund --ignore-scripts "$@"
}
build_go() { (cd "$here/go" && go build -o "$home/drive-go" .); }
build_java() { mvn -B -q -f "$here/java/pom.xml" -DbuildDirectory="$home/java" package dependency:build-classpath "-Dmdep.outputFile=$home/java-classpath"; }

install() {
  case $1 in
    boto3-legacy) quietly python-legacy venv python-legacy 'boto3<1.43' ;;
    js-textract) need npm && quietly js-aws npm_packages @aws-sdk/client-textract ;;
    js-*) need npm && quietly js npm_packages @azure-rest/ai-document-intelligence @mistralai/mistralai openai @google-cloud/documentai @google-cloud/vision ;;
    go-*) quietly go build_go ;;
    java-*) need mvn && need java && quietly java build_java ;;
    *)
      if [[ $quick ]]; then
        quietly python-quick venv python boto3 azure-ai-documentintelligence mistralai openai
      else
        quietly python venv python boto3 azure-ai-documentintelligence azure-ai-formrecognizer google-cloud-documentai google-cloud-vision mistralai openai
      fi
      ;;
  esac
}

# kind CLIENT is the provider's kind.
kind() {
  case $1 in
    *textract* | boto3*) echo textract ;;
    *azure* | *document-intelligence*) echo azure ;;
    *documentai*) echo documentai ;;
    *vision*) echo vision ;;
    *mistral*) echo mistral ;;
    *openai*) echo openai ;;
  esac
}

# has CLIENT SCENARIO: job starts with a token of their own are a thing of Textract; an analysis of Azure is a job anyway.
has() { [[ $2 != job* || $(kind "$1") == textract ]]; }

# script SCENARIO KIND is how the provider fails.
script() {
  case $1 in
    throttle) if [[ $2 == textract ]]; then echo '400 code=ProvisionedThroughputExceededException times=2'; else echo '429 header=Retry-After:1 times=2'; fi ;;
    outage) echo '503 times=4' ;;
    lost | job-lost) echo lose ;;
    hangup) echo 'ok delay=3s' ;;
    down) echo '503 times=500' ;;
  esac
}

# drive CLIENT SCENARIO RETRIES URL PAGE
drive() {
  case $1 in
    boto3-legacy) "$home/python-legacy/bin/python" "$here/drive.py" "$@" ;;
    js-*) node --no-warnings "$home/js/drive.mjs" "$@" ;;
    go-*) "$home/drive-go" "$@" ;;
    java-*) java "-Djavax.net.ssl.trustStore=$home/tls/trust.p12" -Djavax.net.ssl.trustStorePassword=changeit -cp "$home/java/classes:$(<"$home/java-classpath")" Drive "$@" ;;
    *) "$home/python/bin/python" "$here/drive.py" "$@" ;;
  esac
}

: >"$work/proxy.log"
unset "${!AWS_@}" GOOGLE_APPLICATION_CREDENTIALS GOOGLE_CLOUD_PROJECT OPENAI_BASE_URL OPENAI_API_KEY MISTRAL_API_KEY http_proxy https_proxy HTTP_PROXY HTTPS_PROXY all_proxy ALL_PROXY
export AWS_EC2_METADATA_DISABLED=true AWS_CONFIG_FILE=/dev/null AWS_SHARED_CREDENTIALS_FILE=/dev/null NO_PROXY=127.0.0.1 no_proxy=127.0.0.1 NO_GCE_CHECK=true

# until_up URL waits for a server that was just started, and fails when it ends.
until_up() {
  local _
  for _ in {1..200}; do
    curl -fsS -o /dev/null "$1" 2>/dev/null && return
    kill -0 "${started[-1]}" 2>/dev/null || return 1
    sleep 0.05
  done
  return 1
}

# start CLIENT SCENARIO tries again when somebody else took one of the free ports in between.
start() {
  local _
  for _ in {1..3}; do
    start_once "$1" "$2" && return
    stop
  done
  cat "$work/sim.log" "$work/proxy.log" >&2
  die "the provider or the proxy does not start"
}

# start_once CLIENT SCENARIO starts a provider and the proxy before it; sets provider, proxy, admin.
start_once() {
  local kind provider_port proxy_port admin_port scheme=http tls='' auth='{type: passthrough}'
  kind=$(kind "$1")
  read -r provider_port proxy_port admin_port < <(python3 -c '
import socket
taken = [socket.create_server(("127.0.0.1", 0)) for _ in range(3)]
print(*(s.getsockname()[1] for s in taken))')
  provider=http://127.0.0.1:$provider_port
  admin=http://127.0.0.1:$admin_port
  script "$2" "$kind" >"$work/script"
  if [[ $kind == openai ]]; then
    python3 "$here/openai_server.py" "$provider_port" "$work/script" >"$work/sim.log" 2>&1 &
  else
    local verify=()
    [[ $kind == textract ]] && verify=(--verify-sigv4 interop=interop-secret) && auth='{type: sigv4, region: us-east-1}'
    "$work/ocr-proxy" sim --kind "$kind" --listen "127.0.0.1:$provider_port" --job-time 500ms --script "$work/script" ${verify[@]+"${verify[@]}"} >"$work/sim.log" 2>&1 &
  fi
  started+=($!)
  until_up "$provider/__sim/stats" || return 1
  if [[ $1 == java-document-intelligence ]]; then # it sends its key over TLS only
    scheme=https
    tls="    tls: {cert_file: \"$home/tls/cert.pem\", key_file: \"$home/tls/key.pem\"}"
    certificate
  fi
  proxy=$scheme://127.0.0.1:$proxy_port
  cat >"$work/config.yaml" <<YAML
admin: {listen: "127.0.0.1:$admin_port"}
shutdown: {drain_timeout: 0s}
dead_letters: {dir: "$work/dead-letters-$RANDOM$RANDOM"}
retry: {max_attempts: 6, total_budget: 20s, base_delay: 200ms, cap_delay: 1s}
breaker: {reset_timeout: 2s}
providers:
  - name: account
    kind: $kind
    listen: "127.0.0.1:$proxy_port"
    upstream: "$provider"
    auth: $auth
$tls
YAML
  AWS_ACCESS_KEY_ID=interop AWS_SECRET_ACCESS_KEY=interop-secret "$work/ocr-proxy" serve --config "$work/config.yaml" >"$work/proxy.log" 2>&1 &
  started+=($!)
  until_up "$admin/readyz" || return 1
}

# certificate makes a certificate for 127.0.0.1 and a trust store of it for Java.
certificate() {
  [[ -e $home/tls/trust.p12 ]] && return
  need openssl
  mkdir -p "$home/tls"
  openssl req -x509 -newkey rsa:2048 -nodes -days 30 -subj /CN=127.0.0.1 -addext subjectAltName=IP:127.0.0.1 \
    -keyout "$home/tls/key.pem" -out "$home/tls/cert.pem" 2>/dev/null
  keytool -importcert -noprompt -alias proxy -file "$home/tls/cert.pem" -keystore "$home/tls/trust.p12" -storetype PKCS12 -storepass changeit 2>/dev/null
}

# cell CLIENT SCENARIO RETRIES runs one and adds its line to the results.
cell() {
  local page=$work/pages/lease-01.png line
  [[ $2 == corrupt ]] && page=$work/pages/damaged.png
  start "$1" "$2"
  line=$(timeout "$enough" bash -c "$driver" _ "$1" "$2" "$3" "$proxy" "$page" 2>"$work/driver.log" | tail -n 1) || true
  [[ $line == '{'* ]] || line=$(python3 "$here/report.py" silent "$1" "$2" "$3" "$enough" "$work/driver.log")
  [[ $2 == hangup ]] && sleep 2 # an attempt that nobody waits for comes to its end
  curl -fsS "$provider/__sim/stats" >"$work/stats.json"
  curl -fsS "$admin/metrics" >"$work/metrics"
  python3 "$here/report.py" add "$line" "$work/stats.json" "$work/metrics" "$results"
  stop
}
driver="$(declare -f drive); home='$home' here='$here'; drive \"\$@\""

for name in "${clients[@]}"; do
  install "$name"
  [[ $name == js-* ]] && cp "$here/drive.mjs" "$home/js/" # imports are looked up beside the file
  say "$name"
  for scenario in "${scenarios[@]}"; do
    has "$name" "$scenario" || continue
    for retries in off on; do
      cell "$name" "$scenario" "$retries"
    done
  done
done

if [[ -z $quick && (${INTEROP_RESULTS:-} || (${#clients[@]} == "${#all[@]}" && -z ${INTEROP_SCENARIOS:-})) ]]; then
  python3 "$here/report.py" write "$results" "$root/docs/clients.md"
fi
python3 "$here/report.py" close "$results"

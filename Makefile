# The two commands to know: make run, make test.

GO      ?= go
BIN     := bin/ocr-proxy
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
COMMIT  ?= $(shell git rev-parse --short HEAD 2>/dev/null || echo unknown)
# No folder, no state of a checkout and no C compiler goes into the binary: the same source and the same Go make the same bytes.
REPEATABLE := -trimpath -buildvcs=false
LDFLAGS := -s -w -X main.version=$(VERSION) -X main.commit=$(COMMIT)

# The race detector needs cgo and a C compiler. Without one the tests still run, and say that they run without it.
RACE := $(shell command -v $${CC:-cc} >/dev/null 2>&1 && [ "$$($(GO) env CGO_ENABLED)" = 1 ] && echo -race)

FUZZTIME      ?= 30s
ROUNDS        ?= 300
GOLANGCI_LINT ?= golangci-lint
GORELEASER    ?= goreleaser
GOVULNCHECK   ?= govulncheck

.PHONY: run build test fuzz bench bench-peers million replay-storm storm crash soak rules fleet lint cross image sbom reproducible deploy
.PHONY: licenses vuln release-check release-snapshot interop interop-smoke interop-tika browser help

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST)

run: build ## run the demo: simulated providers, the proxy, a batch of pages
	$(BIN) demo

build: ## build bin/ocr-proxy
	CGO_ENABLED=0 $(GO) build $(REPEATABLE) -ldflags '$(LDFLAGS)' -o $(BIN) ./cmd/ocr-proxy

test: ## run all tests
	@[ -n "$(RACE)" ] || echo 'make test: no C compiler found, so the race detector is left out (install gcc or clang to have it)'
	$(GO) test $(RACE) -shuffle=on ./...

fuzz: ## fuzz every parser of outside input for FUZZTIME each
	@set -e; $(GO) list -f '{{if .TestGoFiles}}{{.ImportPath}} {{.Dir}}{{else if .XTestGoFiles}}{{.ImportPath}} {{.Dir}}{{end}}' ./... | while read -r pkg dir; do \
		for target in $$(grep -hoE '^func Fuzz[A-Za-z0-9_]+' "$$dir"/*_test.go | sed 's/^func //' | sort -u); do \
			echo "fuzz $$pkg $$target"; \
			fuzz() { $(GO) test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) "$$pkg"; }; \
			found() { ls "$$dir/testdata/fuzz/$$target" 2>/dev/null | wc -l; }; \
			before=$$(found); \
			fuzz || { [ "$$(found)" = "$$before" ] || exit 1; echo "no input was found: a busy machine can be late at the end; once more"; fuzz || exit 1; }; \
		done; done

bench: ## benchmarks, and the proxy against a bare httputil.ReverseProxy in the same run
	$(GO) test -run '^$$' -bench . -benchtime 300ms ./internal/...
	$(GO) run ./internal/bench

bench-peers: ## beside nginx, HAProxy, Caddy and bare proxies in Go, with the bars; PEERS=FOLDER of that benchmark, PEERS_FLAGS=-quick for a short one
	bash deploy/bench/peers.sh $(PEERS_FLAGS)

replay-storm: ## replay 10,000 letters while the command, then the proxy, is killed five times; prints what it counted
	REPLAY_STORM=$${REPLAY_STORM:-10000} $(GO) test -count=1 -v -timeout 60m -run '^TestReplayStorm' ./cmd/ocr-proxy

LETTERS     ?= 1000000
MILLION_DIR ?= $(CURDIR)/bin/million

million: build ## commands and starts with LETTERS open dead letters (a million) in MILLION_DIR, on a real disk: time and memory
	mkdir -p $(MILLION_DIR)
	MILLION_LETTERS=$(LETTERS) MILLION_DIR=$(MILLION_DIR) MILLION_PROGRAM=$(CURDIR)/$(BIN) $(GO) test -run AMillion -v -count 1 -timeout 2h ./cmd/ocr-proxy

storm: ## an open circuit under 0.6 of the documents per second that a bare loop of durable writes reaches, each letter verified
	$(GO) run ./internal/endure storm -size 20480
	$(GO) run ./internal/endure storm -size 204800

crash: ## kill -9 under load ROUNDS times; after each, everything that workers were told of is there
	$(GO) run ./internal/endure crash -rounds $(ROUNDS)

SOAK      ?= 3m
SOAKFLAGS ?=

soak: ## the program for SOAK under mixed traffic, faults, reloads and restarts: a ledger of every document, and flat resources (docs/reliability.md)
	$(GO) run ./internal/soak -for $(SOAK) $(SOAKFLAGS)

rules: ## check alerts and metrics for Prometheus and run their tests (promtool is in Debian's package prometheus)
	promtool check rules deploy/prometheus/*.rules.yaml
	promtool test rules deploy/prometheus/*_test.yaml
	GO='$(GO)' bash deploy/prometheus/scrape.sh
	$(GO) test -count=1 -run 'Alert|Dashboard' ./config

fleet: ## the program under a fleet and one quota, in scaled real time: tables like the simulation's, and the bars (FLEET=flags)
	$(GO) run ./internal/fleet $(FLEET)

lint: ## golangci-lint, of the tools of deploy/ as well
	$(GOLANGCI_LINT) run ./...
	cd deploy/tools && $(GOLANGCI_LINT) run -c ../../.golangci.yml ./...

cross: ## build and vet for the other platforms
	for os in darwin windows; do GOOS=$$os CGO_ENABLED=0 $(GO) build -o /dev/null ./... && GOOS=$$os CGO_ENABLED=0 $(GO) vet ./... || exit 1; done

PLATFORM ?= linux/$(shell $(GO) env GOARCH)
CREATED  := $(shell git log -1 --format=%ct 2>/dev/null || echo 0)

image: ## the image of the Dockerfile without a container engine: bin/ocr-proxy-image.tar, for docker load, podman load, kind load
	cd deploy/tools && $(GO) run ./image -root ../.. -out ../../bin/ocr-proxy-image.tar -tag ocr-proxy:latest -platform $(PLATFORM) \
		-created $(CREATED) -build-arg VERSION=$(VERSION) -build-arg COMMIT=$(COMMIT)

reproducible: ## build the last commit in two folders, once with an empty cache; the bytes must be the same
	deploy/tools/reproducible.sh

# Programs for the targets below, each with its own dependencies, by exact version.
TOOLS            := $(CURDIR)/bin/tools
KUSTOMIZE        := $(TOOLS)/v5.7.1/kustomize
KUBECTL_VALIDATE := $(TOOLS)/v0.0.4/kubectl-validate
CYCLONEDX_GOMOD  := $(TOOLS)/v1.10.0/cyclonedx-gomod
OPERATOR         := github.com/prometheus-operator/prometheus-operator@v0.85.0

$(KUSTOMIZE):
	GOBIN=$(@D) $(GO) install sigs.k8s.io/kustomize/kustomize/v5@$(notdir $(@D))
$(KUBECTL_VALIDATE):
	GOBIN=$(@D) $(GO) install sigs.k8s.io/kubectl-validate@$(notdir $(@D))
$(CYCLONEDX_GOMOD):
	GOBIN=$(@D) $(GO) install github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod@$(notdir $(@D))

# Licences are read from the modules that the build has loaded; of the program itself and of the standard library it warns that it finds none.
sbom: build $(CYCLONEDX_GOMOD) ## what is in the binary, as CycloneDX JSON: bin/ocr-proxy.cdx.json, compared with the binary
	GOPROXY=off $(CYCLONEDX_GOMOD) bin -json -std -licenses -version $(VERSION) -output $(BIN).cdx.json $(BIN)
	cd deploy/tools && SBOM=$(CURDIR)/$(BIN).cdx.json BINARY=$(CURDIR)/$(BIN) VERSION=$(VERSION) $(GO) test -count=1 ./sbom

deploy: $(KUSTOMIZE) $(KUBECTL_VALIDATE) ## build and check the manifests for Kubernetes, the compose file and the image; the first time it loads tools
	cd deploy/tools && $(GO) vet ./... && KUSTOMIZE=$(KUSTOMIZE) KUBECTL_VALIDATE=$(KUBECTL_VALIDATE) \
		MONITORING_CRDS=$$($(GO) mod download -json $(OPERATOR) | sed -n 's/^\t"Dir": "\(.*\)",$$/\1/p')/example/prometheus-operator-crd \
		$(GO) test -count=1 ./...

licenses: ## the licences of all that is linked in; fails for one that is not allowed, writes their texts to bin/THIRD_PARTY_NOTICES
	@mkdir -p bin
	$(GO) run ./internal/licenses -notices bin/THIRD_PARTY_NOTICES

# goreleaser takes the commit from a clone that has an origin alone.
ORIGIN = $(if $(shell git remote),,GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=remote.origin.url GIT_CONFIG_VALUE_0=https://github.com/ocr-proxy/ocr-proxy)

vuln: ## known vulnerabilities in what is called (govulncheck); says so loudly where its database is not to be reached
	@if curl -fsS -m 20 -o /dev/null "$${GOVULNDB:-https://vuln.go.dev}/index/db.json"; then $(GOVULNCHECK) ./...; \
	else echo "!!! $${GOVULNDB:-vuln.go.dev} cannot be reached: NOBODY LOOKED FOR KNOWN VULNERABILITIES"; fi

release-check: ## check .goreleaser.yaml, build with it and with make for this machine, and see that both programs know their version
	$(GORELEASER) check
	$(ORIGIN) $(GORELEASER) build --snapshot --clean --single-target
	@want=$$(sed -n 's/.*"version":"\([^"]*\)".*/\1/p' dist/metadata.json); got=$$(dist/ocr-proxy_*/ocr-proxy version); echo "$$got"; \
	[ -n "$$want" ] && case "$$got" in "ocr-proxy $$want (commit $(COMMIT), go1."*) ;; *) echo "goreleaser's program should be version $$want of commit $(COMMIT)"; exit 1;; esac
	@$(MAKE) --no-print-directory build BIN=dist/made VERSION=v9.8.7-check COMMIT=0123abc
	@case "$$(dist/made version)" in "ocr-proxy v9.8.7-check (commit 0123abc, go1."*) ;; *) dist/made version; echo "make build does not stamp the version"; exit 1;; esac

release-snapshot: ## all archives, checksums and bills of materials of a release in dist/, without publishing anything
	$(ORIGIN) $(GORELEASER) release --snapshot --clean --skip=publish,announce

browser: ## click through the page for people in a real Chromium; BROWSER_SCREENSHOTS=FOLDER keeps what it saw
	cd deploy/browser && $(GO) vet ./... && $(GO) test -count=1 -timeout 5m ./...

interop: ## all the client libraries of docs/clients.md through the proxy, each with every fault; writes that table anew
	bash deploy/interop/matrix.sh

interop-tika: ## a real Apache Tika Server with Tesseract behind the proxy; needs Java 17, Maven and tesseract
	bash deploy/interop/tika.sh

interop-smoke: ## real AWS SDKs for Python and JavaScript through the proxy to a simulated Textract that really reads
	bash deploy/interop/smoke.sh

package config

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// account is a good entry in YAML's flow style, with further keys or others in place of its own.
func account(more string) string {
	entry := more
	for _, own := range []string{"name: a", "kind: mistral", `listen: "127.0.0.1:8085"`, `upstream: "https://api.mistral.ai"`} {
		key, _, _ := strings.Cut(own, " ")
		if !strings.HasPrefix(more, key) {
			entry = own + ", " + entry
		}
	}
	return "{" + entry + "}\n"
}

func providers(entries ...string) string {
	return "providers:\n  - " + strings.Join(entries, "  - ")
}

func TestRangesAndWords(t *testing.T) {
	for key, text := range map[string]string{
		"precheck.skip[1]":                     "precheck: {skip: [blank, blur]}",
		"log.format":                           "log: {format: xml}",
		"admin.listen":                         "admin: {listen: nowhere}",
		"admin.hosts[0]":                       `admin: {hosts: ["http://x"]}`,
		"providers[0].max_connections":         providers(account("max_connections: 0")),
		"providers[0].hosts[1]":                providers(account(`hosts: [ocr, "ocr:8081"]`)),
		"shutdown.drain_timeout":               "shutdown: {drain_timeout: -1s}",
		"body.max_bytes":                       "body: {max_bytes: 0}",
		"dead_letters.dir":                     `dead_letters: {dir: ""}`,
		"dead_letters.max_bytes":               "dead_letters: {max_bytes: 0}",
		"dead_letters.retention":               "dead_letters: {retention: -1h}",
		"dead_letters.payloads":                "dead_letters: {payloads: some}",
		"dead_letters.processing_version":      `dead_letters: {processing_version: "ä"}`,
		"dead_letters.webhook.timeout":         "dead_letters: {webhook: {timeout: 0s}}",
		"dead_letters.auto_replay.max_age":     "dead_letters: {auto_replay: {max_age: 0s}}",
		"dead_letters.auto_replay.rate":        "dead_letters: {auto_replay: {rate: 0}}",
		"retry.max_attempts":                   "retry: {max_attempts: 0}",
		"retry.base_delay":                     "retry: {base_delay: 0s}",
		"retry.cap_delay":                      "retry: {cap_delay: -1s}",
		"retry.attempt_timeout":                "retry: {attempt_timeout: 0s}",
		"retry.attempt_timeout_per_mb":         "retry: {attempt_timeout_per_mb: 2h}",
		"retry.unknown_retries":                "retry: {unknown_retries: -1}",
		"retry.ambiguous":                      "retry: {ambiguous: maybe}",
		"retry.budget.ratio":                   "retry: {budget: {ratio: 1.1}}",
		"retry.budget.floor":                   "retry: {budget: {floor: -1}}",
		"retry.operations.detect.max_attempts": "retry: {operations: {Detect: {max_attempts: 0}}}",
		"breaker.failure_threshold":            "breaker: {failure_threshold: 0}",
		"breaker.failure_ratio":                "breaker: {failure_ratio: -0.1}",
		"breaker.min_requests":                 "breaker: {min_requests: 0}",
		"breaker.window":                       "breaker: {window: 0s}",
		"breaker.reset_timeout":                "breaker: {reset_timeout: 0s}",
		"pacing.rate":                          "pacing: {rate: -1}",
		"pacing.burst":                         "pacing: {burst: 5}",
		"pacing.max_in_flight":                 "pacing: {max_in_flight: -1}",
		"pacing.start_rate":                    "pacing: {start_rate: 0}",
		"pacing.recovery":                      "pacing: {recovery: 0s}",
		"pacing.max_waiting":                   "pacing: {max_waiting: 0}",
		"pacing.fair_by":                       "pacing: {fair_by: document}",
		"pacing.open_jobs":                     "pacing: {open_jobs: -1}",
		"breaker.half_open_probes":             "breaker: {half_open_probes: 0}",
		"breaker.on_open":                      "breaker: {on_open: shrug}",
		"breaker.on_throttle":                  "breaker: {on_throttle: shrug}",
		"breaker.on_sustained":                 "breaker: {on_sustained: shrug}",
		"breaker.fatal_ratio":                  "breaker: {fatal_ratio: 2}",
		"breaker.auth_threshold":               "breaker: {auth_threshold: -1}",
		"review.threshold":                     "review: {threshold: -1}",
		"review.aggregate":                     "review: {aggregate: guess}",
		"review.empty_text":                    "review: {empty_text: shrug}",
		"rescue.ttl":                           "rescue: {ttl: -1s}",
		"rescue.max_bytes":                     "rescue: {max_bytes: 0}",
		"tracing.sample_ratio":                 "tracing: {sample_ratio: 1.5}",
		"providers[0].name":                    providers(account(`name: "-a"`)),
		"providers[0].kind":                    providers(account("kind: fax")),
		"providers[0].listen":                  providers(account(`listen: "127.0.0.1:99999"`)),
		"providers[0].upstream":                providers(account(`upstream: ""`)),
		"providers[0].mode":                    providers(account("mode: dream")),
		"providers[0].inject_token":            providers(account("inject_token: perhaps")),
		"providers[0].rules[1].class":          providers(account("rules: [{status: 400, class: auth}, {status: 400, class: soft}]")),
		"providers[0].rules[0].status":         providers(account("rules: [{status: 42, class: auth}]")),
		"providers[0].rules[0]":                providers(account("rules: [{class: auth}]")),
		"providers[0].retry.max_attempts":      providers(account("retry: {max_attempts: 0}")),
		"providers[0].auth.type":               providers(account("auth: {type: magic}")),
	} {
		t.Run(key, func(t *testing.T) {
			if !strings.HasPrefix(text, "providers:") {
				text += oneAccount
			}
			found := refused(t, text)
			require.Contains(t, found, key)
			require.Len(t, found, 1)
		})
	}
}

func TestStateAddress(t *testing.T) {
	for address, want := range map[string]string{
		"http://h": "redis:// or rediss://", "redis://": "redis:// or rediss://", "redis://:hunter2@h/x": "number of a database", "redis://h/-1": "number of a database",
		"redis://h?db=1": "%3F", "redis://:hunter2@h:99999": "between 1 and 65535",
	} {
		found := refused(t, `state: {url: "`+address+`"}`+"\n"+oneAccount)
		require.Len(t, found, 1, address)
		require.Contains(t, found["state.url"], want, address)
		require.NotContains(t, found["state.url"], "hunter2")
	}
	for _, address := range []string{"redis://h", "rediss://user:hunter2@h:6380/2"} {
		accepted(t, `state: {url: "`+address+`"}`+"\n"+oneAccount)
	}
}

func TestAllProblemsAtOnce(t *testing.T) {
	found := refused(t, `
retry: {max_attempts: 0, base_delay: 7, jitter: full}
providers:
  - {name: one, kind: fax, listen: "127.0.0.1:8081", upstream: "ftp://x"}
  - {name: two, kind: azure, listen: "127.0.0.1:8081", upstream: "https://x.example", auth: {type: sigv4}}
  - just a word
`, "OCR_PROXY_RETRY_CAP_DELAY=30")
	for _, key := range []string{
		"retry.max_attempts", "retry.base_delay", "retry.jitter", "OCR_PROXY_RETRY_CAP_DELAY", "providers[0].kind",
		"providers[0].upstream", "providers[1].listen", "providers[1].auth.region", "providers[2]",
	} {
		require.Contains(t, found, key)
	}
	require.Len(t, found, 9)
	require.Contains(t, found["providers[1].listen"], `account "two"`)
	require.Contains(t, found["providers[1].listen"], "providers[0].listen")

	err := &InvalidError{Problems: []Problem{{"a", "one"}, {"b\nc", "two"}}}
	require.EqualError(t, err, "a: one\nb c: two")
}

func TestDuplicateAccounts(t *testing.T) {
	found := refused(t, providers(account(""), `{name: a, kind: azure, listen: "127.0.0.1:8086", upstream: "https://x.example"}`))
	require.Contains(t, found["providers[1].name"], `account "a": the name is taken by providers[0]`)
}

func TestUpstreams(t *testing.T) {
	entry := func(upstream string) string {
		return providers(`{name: a, kind: mistral, listen: "127.0.0.1:8085", upstream: "` + upstream + `"}`)
	}
	for _, bad := range []string{
		"ftp://host", "https://", "host:80", "//host", "https://u:hunter2@host", "https://host?key=hunter2", "https://host?",
		"https://host#", "https://host/%zz", "https://:443", "https://host:0", "https://host:99999", "mailto:x@y", "https:opaque",
	} {
		found := refused(t, entry(bad))
		require.Len(t, found, 1, bad)
		require.Contains(t, found, "providers[0].upstream", bad)
		require.NotContains(t, found["providers[0].upstream"], "hunter2")
	}
	for _, good := range []string{"http://127.0.0.1:9", "https://host", "https://host/base/path", "https://[::1]:8443/", "HTTPS://Host"} {
		cfg := accepted(t, entry(good))
		require.Equal(t, strings.ToLower(good), strings.ToLower(cfg.Providers[0].UpstreamURL().String()))
	}
	require.Nil(t, Provider{Upstream: "http://a b"}.UpstreamURL())
}

func TestListenersThatCollide(t *testing.T) {
	for _, test := range []struct {
		a, b     string
		conflict bool
	}{
		{"127.0.0.1:8081", "127.0.0.1:8081", true},
		{"127.0.0.1:8081", "localhost:8081", true},
		{"127.0.0.1:8081", ":8081", true},
		{"0.0.0.0:8081", "[::1]:8081", true},
		{"[::]:8081", "127.0.0.1:8081", true},
		{"[::ffff:127.0.0.1]:8081", "127.0.0.1:8081", true},
		{"127.0.0.1:8081", "127.0.0.2:8081", false},
		{"127.0.0.1:8081", "127.0.0.1:8082", false},
		{"127.0.0.1:0", "127.0.0.1:0", false},
		{"127.0.0.1:8081", "127.0.0.1:9090", true}, // The admin listener's own.
	} {
		text := providers(`{name: a, kind: mistral, upstream: "https://x.example", listen: "`+test.a+"\"}\n",
			`{name: b, kind: mistral, upstream: "https://x.example", listen: "`+test.b+`"}`)
		if !test.conflict {
			accepted(t, text)
			continue
		}
		require.Contains(t, refused(t, text)["providers[1].listen"], "taken", "%s and %s", test.a, test.b)
	}
}

func TestLoopback(t *testing.T) {
	for address, want := range map[string]bool{
		"127.0.0.1:1": true, "127.9.9.9:1": true, "[::1]:1": true, "localhost:1": true, "[::ffff:127.0.0.1]:1": true,
		":1": false, "0.0.0.0:1": false, "[::]:1": false, "10.0.0.1:1": false, "localhost.example:1": false, "nonsense": false,
	} {
		require.Equal(t, want, loopback(address), address)
	}
}

func TestCredentialsOnAPortThatOthersReach(t *testing.T) {
	ca, _ := certificate(t)
	entry := func(more string) string {
		return providers(`{name: a, kind: generic, upstream: "https://x.example", listen: "0.0.0.0:0", ` + more + "}")
	}
	env := []string{"KEY=K", "AWS_REGION=us-east-1"}
	for _, auth := range []string{"auth: {type: header, header: X, value_env: KEY}", "auth: {type: sigv4}"} {
		message := refused(t, entry(auth), env...)["providers[0].listen"]
		require.Contains(t, message, "clients")
		require.Contains(t, message, "client_ca_file")
	}
	accepted(t, entry("auth: {type: passthrough}"))
	accepted(t, entry("auth: {type: none}"))

	cert, key := certificate(t)
	accepted(t, entry("auth: {type: sigv4}, tls: {cert_file: "+cert+", key_file: "+key+", client_ca_file: "+ca+"}"), env...)
}

func TestTLSFiles(t *testing.T) {
	cert, key := certificate(t)
	_, otherKey := certificate(t)
	empty := filepath.Join(t.TempDir(), "empty.pem")
	require.NoError(t, os.WriteFile(empty, nil, 0o600))
	accepted(t, "admin: {tls: {cert_file: "+cert+", key_file: "+key+", client_ca_file: "+cert+"}}\n"+
		providers(account("upstream_tls: {ca_file: "+cert+"}")))
	for key, text := range map[string]string{
		"tls.key_file":         "tls: {cert_file: " + cert + "}",
		"tls.cert_file":        "tls: {client_ca_file: " + cert + "}",
		"upstream_tls.ca_file": "upstream_tls: {ca_file: " + empty + "}",
	} {
		require.Contains(t, refused(t, providers(account(text))), "providers[0]."+key)
	}
	require.Contains(t, refused(t, providers(account("tls: {cert_file: "+cert+", key_file: "+otherKey+"}")))["providers[0].tls.cert_file"], "not a usable pair")
	require.Contains(t, refused(t, providers(account("tls: {cert_file: /none.pem, key_file: "+key+"}")))["providers[0].tls.cert_file"], "/none.pem")
}

func TestAuthByKindAndType(t *testing.T) {
	entry := func(kind, auth string) string {
		return providers(`{name: a, kind: ` + kind + `, listen: "127.0.0.1:8085", upstream: "https://x.example", auth: {` + auth + `}}`)
	}
	for _, kind := range Kinds() {
		cfg := accepted(t, entry(kind, ""), "AWS_DEFAULT_REGION=eu-west-1")
		want := Auth{Type: "passthrough"}
		if kind == "textract" {
			want = Auth{Type: "sigv4", Region: "eu-west-1", Service: "textract"}
		}
		require.Equal(t, want, cfg.Providers[0].Auth, kind)
	}
	require.Equal(t, "us-east-1", accepted(t, entry("textract", ""), "AWS_DEFAULT_REGION=eu-west-1", "AWS_REGION=us-east-1").Providers[0].Auth.Region)
	require.Equal(t, "ap-south-1", accepted(t, entry("textract", "region: ap-south-1"), "AWS_REGION=us-east-1").Providers[0].Auth.Region)

	for _, test := range []struct{ auth, key string }{
		{"type: sigv4", "region"},
		{"type: sigv4, region: 'a b'", "region"},
		{"type: header, value_env: KEY", "header"},
		{"type: header, header: 'X Key', value_env: KEY", "header"},
		{"type: header, header: host, value_env: KEY", "header"},
		{"type: header, header: X-Key", "value_file"},
		{"type: header, header: X-Key, value_env: KEY, value_file: /dev/null", "value_file"},
		{"type: header, header: X-Key, value_env: MISSING", "value_env"},
		{"type: header, header: X-Key, value_env: KEY, scheme: 'a b'", "scheme"},
		{"type: header, header: X-Key, value_env: KEY, region: us-east-1", "region"},
		{"type: passthrough, value_env: KEY", "value_env"},
		{"type: sigv4, region: us-east-1, role_arn: 'arn:x'", "role_arn"},
		{"type: sigv4, region: us-east-1, role_arn: 'arn:aws:iam::123456789012:user/me'", "role_arn"},
		{"type: sigv4, region: us-east-1, scopes: [x]", "scopes"},
		{"type: google_adc, scopes: ['https://x.example/a https://x.example/b']", "scopes[0]"},
		{"type: google_adc, scopes: ['https://x.example/a', cloud-platform]", "scopes[1]"},
		{"type: google_adc, scope: 'https://x.example/.default'", "scope"},
		{"type: azure_entra, scope: 'https://x.example'", "scope"},
		{"type: azure_entra, scope: 'x/.default'", "scope"},
		{"header: X-Key", "header"},
	} {
		found := refused(t, entry("generic", test.auth), "KEY=K")
		require.Contains(t, found, "providers[0].auth."+test.key, test.auth)
		require.Len(t, found, 1, test.auth)
	}
	accepted(t, entry("generic", "type: header, header: X-Key, scheme: Bearer, value_env: KEY"), "KEY=K")
	accepted(t, entry("textract", "region: us-gov-west-1, role_arn: 'arn:aws-us-gov:iam::123456789012:role/path/to/ocr'"))

	// What an identity is asked for unless the file says.
	google := Auth{Type: "google_adc", Scopes: []string{"https://www.googleapis.com/auth/cloud-platform"}}
	require.Equal(t, google, accepted(t, entry("vision", "type: google_adc")).Providers[0].Auth)
	google.Scopes = []string{"https://www.googleapis.com/auth/cloud-vision"}
	require.Equal(t, google, accepted(t, entry("vision", "type: google_adc, scopes: ['https://www.googleapis.com/auth/cloud-vision']")).Providers[0].Auth)
	entra := Auth{Type: "azure_entra", Scope: "https://cognitiveservices.azure.com/.default"}
	require.Equal(t, entra, accepted(t, entry("azure", "type: azure_entra")).Providers[0].Auth)
	entra.Scope = "https://cognitiveservices.azure.us/.default"
	require.Equal(t, entra, accepted(t, entry("azure", "type: azure_entra, scope: 'https://cognitiveservices.azure.us/.default'")).Providers[0].Auth)
}

// Routes are not available yet, so their checks are asked directly.
func TestRoutesNeedCredentialsOfTheirOwn(t *testing.T) {
	cfg := Default()
	cfg.Providers = []Provider{
		{Name: "a", Kind: "mistral", Auth: Auth{Type: "none"}, Fallback: []string{"a", "b", "c", "d", "e"}, Spread: map[string]int{"e": 0}},
		{Name: "b", Kind: "mistral", Auth: Auth{Type: "passthrough"}},
		{Name: "c", Kind: "azure", Auth: Auth{Type: "none"}},
		{Name: "e", Kind: "mistral", Auth: Auth{Type: "none"}},
		{Name: "f", Kind: "mistral", Auth: Auth{Type: "passthrough"}, Fallback: []string{"e"}},
		{Name: "g", Kind: "mistral", Auth: Auth{Type: "none"}, IdempotencyHeader: "Idempotency-Key", Fallback: []string{"e"}},
	}
	var found problems
	c := checker{cfg: cfg, found: &found}
	for i, p := range cfg.Providers {
		c.entry(i).routes(p)
	}
	var keys []string
	for _, p := range found {
		keys = append(keys, p.Key)
	}
	require.Equal(t, []string{
		"providers[0].fallback[0]", "providers[0].fallback[1]", "providers[0].fallback[2]", "providers[0].fallback[3]",
		"providers[0].spread.e", "providers[4].auth.type", "providers[5].fallback[0]",
	}, keys)
}

func TestAnAccountThatObservesIsInNoGroup(t *testing.T) {
	other := func(more string) string {
		return `  - {name: b, kind: vision, auth: {type: none}, listen: "127.0.0.1:8082", upstream: "https://b.example"` + more + "}"
	}
	accepted(t, providers(account("mode: observe")))
	found := refused(t, providers(account("kind: vision, auth: {type: none}, mode: observe, fallback: [b]"))+other(""))
	require.Len(t, found, 1)
	require.Contains(t, found["providers[0].mode"], "must be enforce beside fallback and spread")
	found = refused(t, providers(account("kind: vision, auth: {type: none}, fallback: [b], spread: {b: 1}"))+other(", mode: observe"))
	require.Len(t, found, 2)
	require.Contains(t, found["providers[0].fallback[0]"], "that account has mode observe")
	require.Contains(t, found["providers[0].spread.b"], "that account has mode observe")
}

func TestValidateChecksAConfigurationBuiltInCode(t *testing.T) {
	cfg := accepted(t, oneAccount)
	require.NoError(t, cfg.Validate(nil))
	cfg.Providers[0].Kind = "fax"
	err := cfg.Validate(nil)
	requireInvalid(t, err)
	require.ErrorContains(t, err, `providers[0].kind: account "a"`)
}

// certificate writes a self-signed certificate and its key.
func certificate(t *testing.T) (certFile, keyFile string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	require.NoError(t, err)
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	dir := t.TempDir()
	certFile, keyFile = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	require.NoError(t, os.WriteFile(certFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	require.NoError(t, os.WriteFile(keyFile, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}), 0o600))
	return certFile, keyFile
}

func TestUpstreamMustNotBeTheProxyItself(t *testing.T) {
	for address, own := range map[string]string{
		"http://127.0.0.1:8085":    "providers[0].listen",
		"http://localhost:8085/v1": "providers[0].listen",
		"http://0.0.0.0:8085":      "providers[0].listen",
		"http://[::1]:8086":        "providers[1].listen",
		"https://127.0.0.1:8086":   "providers[1].listen",
		"http://localhost:9090":    "admin.listen",
		"http://127.0.0.1:8087":    "",
		"http://ocr.example:8086":  "", // every address of this machine, but another machine
		"https://ocr.example":      "",
		"http://127.0.0.2:8085":    "",
	} {
		text := providers(account(`upstream: "`+address+`"`)) + `  - {name: b, kind: azure, listen: "0.0.0.0:8086", upstream: "https://b.example"}`
		if own == "" {
			accepted(t, text)
			continue
		}
		require.Contains(t, refused(t, text)["providers[0].upstream"], "is the proxy's own "+own, address)
	}
}

package config

import (
	"cmp"
	"time"
)

// Default returns the configuration of an empty file: every default in one place, and no provider. Features that are not
// available yet are off here.
func Default() *Config {
	return &Config{
		Log:      Log{Level: "info", Format: "json"},
		Admin:    Admin{Listen: "127.0.0.1:9090"},
		Shutdown: Shutdown{DrainTimeout: 100 * time.Second},
		Body:     Body{MaxBytes: 512 << 20, MemoryPerRequest: 1 << 20, MemoryTotal: 256 << 20},
		DeadLetters: DeadLetters{
			Dir:        "./dead-letters",
			MaxBytes:   10 << 30,
			Payloads:   "keep",
			Webhook:    Webhook{Timeout: 10 * time.Second},
			AutoReplay: AutoReplay{MaxAge: 24 * time.Hour, Rate: 1},
		},
		Retry: Retry{
			MaxAttempts:    6,
			TotalBudget:    90 * time.Second,
			BaseDelay:      time.Second,
			CapDelay:       30 * time.Second,
			AttemptTimeout: 60 * time.Second,
			Ambiguous:      "safe",
			Budget:         RetryBudget{Ratio: 0.2, Floor: 10},
		},
		Breaker: Breaker{
			FailureThreshold: 5,
			MinRequests:      20,
			Window:           60 * time.Second,
			ResetTimeout:     60 * time.Second,
			HalfOpenProbes:   1,
			OnOpen:           "reject",
			OnThrottle:       "pause",
			OnSustained:      "alert",
		},
		Pacing: Pacing{Adaptive: true, StartRate: 2, Recovery: 10 * time.Second, MaxWaiting: 10000, FairBy: "tenant"},
		Review: Review{
			Threshold:       0.80,
			Aggregate:       "mean",
			EmptyText:       "accept",
			MissingPages:    "accept",
			Partial:         "accept",
			Truncated:       "accept",
			URLOnly:         "accept",
			MalformedOutput: "accept",
		},
		Precheck: Precheck{RejectBlank: true},
		Rescue:   Rescue{TTL: 5 * time.Minute, MaxBytes: 256 << 20},
		Tracing:  Tracing{SampleRatio: 1},
	}
}

// defaultProvider returns what a provider entry starts from. Its inherited sections are the built-in defaults; loading
// lays the top-level sections and then the entry over them.
func defaultProvider() Provider {
	d := Default()
	return Provider{
		Mode:              "enforce",
		MaxConnections:    16384,
		InjectToken:       "true",
		IdempotencyQuoted: true,
		Retry:             d.Retry,
		Breaker:           d.Breaker,
		Pacing:            d.Pacing,
		Review:            d.Review,
		Precheck:          d.Precheck,
	}
}

// complete fills what depends on other settings: the account's auth type by its kind, what an auth type needs, and the
// sigv4 region by the environment. An explicit value always stays.
func (c *Config) complete(env environment) {
	for i := range c.Providers {
		p := &c.Providers[i]
		if p.Auth.Type == "" {
			p.Auth.Type = AuthPassthrough
			if signs(p.Kind) {
				p.Auth.Type = AuthSigV4
			}
		}
		p.Auth.complete(env)
		p.ReplayAuth.complete(env)
	}
}

func (a *Auth) complete(env environment) {
	switch a.Type {
	case AuthSigV4:
		a.Service = cmp.Or(a.Service, "textract")
		for _, name := range []string{"AWS_REGION", "AWS_DEFAULT_REGION"} {
			if a.Region == "" {
				a.Region, _ = env.lookup(name)
			}
		}
	case AuthGoogleADC:
		if len(a.Scopes) == 0 {
			a.Scopes = []string{"https://www.googleapis.com/auth/cloud-platform"}
		}
	case AuthAzureEntra:
		a.Scope = cmp.Or(a.Scope, "https://cognitiveservices.azure.com/.default")
	}
}

// signs tells whether the client libraries of a kind sign each request, its host included, instead of sending a key along.
func signs(kind string) bool { return kind == "textract" }

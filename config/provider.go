package config

import "net/url"

// Provider is one account at an OCR provider: its listener, its upstream and how it is treated. Retry, Breaker, Pacing,
// Review and Precheck hold the top-level values wherever the entry did not say otherwise.
type Provider struct {
	Name              string         `mapstructure:"name" reload:"live" doc:"Name of the account, also its label in metrics: a letter or digit, then up to 63 of letters, digits, dot, underscore and hyphen. Unique; case is kept."`
	Kind              string         `mapstructure:"kind" reload:"restart" doc:"textract, azure, documentai, vision, mistral, ocrspace, openai, tika or generic."`
	Listen            string         `mapstructure:"listen" reload:"live" doc:"host:port on which workers reach this account."`
	MaxConnections    int            `mapstructure:"max_connections" reload:"live" doc:"Connections that workers may have open at this listener at once, idle ones among them; further ones wait, unanswered, until one ends. Above pacing.max_waiting, so that who has no place in the queue is told. At least 1."`
	Hosts             []string       `mapstructure:"hosts" reload:"live" doc:"Host names by which workers call this listener, beside IP literals, localhost, the names that containers have for their host (host.docker.internal and alike), the name in listen and the upstream's. On loopback any other is answered 403, since a page on the web can give its own name this address; elsewhere names are only looked at when some are given here."`
	Upstream          string         `mapstructure:"upstream" reload:"restart" doc:"http:// or https:// address of the provider, without user, query and fragment; a base path is allowed."`
	Auth              Auth           `mapstructure:"auth" reload:"live"`
	ReplayAuth        Auth           `mapstructure:"replay_auth" reload:"live"`
	Mode              string         `mapstructure:"mode" reload:"live" doc:"enforce acts; observe classifies, counts and logs what would be done and changes nothing. An account that observes can neither have fallback and spread nor be named in them."`
	Fallback          []string       `mapstructure:"fallback" reload:"live" doc:"Accounts of the same kind to ask, in this order, when this one's circuit is open, its attempts or its share of the time are used up, or its quota is. Each has its own credential. Only calls that any account can answer move, and none that may have been done already."`
	Spread            map[string]int `mapstructure:"spread" reload:"live" doc:"Accounts of the same kind that this listener spreads over, with their weights, at least 1; itself only if it is named. Each has its own credential. Case is kept."`
	InjectToken       string         `mapstructure:"inject_token" reload:"live" doc:"Idempotency token for job starts that have none: true (one per call), content (one per document and options) or false (none)."`
	IdempotencyHeader string         `mapstructure:"idempotency_header" reload:"live" doc:"Kind generic: request header that carries an idempotency token, such as Idempotency-Key, for engines that know one. A POST without it gets a token, made as inject_token says, and may then be repeated; without a token an answer that was lost is not asked for again. Empty: none."`
	IdempotencyQuoted bool           `mapstructure:"idempotency_quoted" reload:"live" doc:"Kind generic: write the token in quotation marks, as the header Idempotency-Key is specified (a structured-field string). false: for engines that compare or check the bare value."`
	RepairPages       bool           `mapstructure:"repair_pages" reload:"live" doc:"Kinds azure, documentai and mistral: when an answer lacks pages that were asked for, ask once more, for those pages alone, and put them in."`
	Rules             []Rule         `mapstructure:"rules" reload:"live" doc:"Further classification rows, asked before the built-in ones; the first match wins."`
	Retry             Retry          `mapstructure:"retry" reload:"live" inherit:"true"`
	Breaker           Breaker        `mapstructure:"breaker" reload:"live" inherit:"true"`
	Pacing            Pacing         `mapstructure:"pacing" reload:"live" inherit:"true"`
	Review            Review         `mapstructure:"review" reload:"live" inherit:"true"`
	Precheck          Precheck       `mapstructure:"precheck" reload:"live" inherit:"true"`
	TLS               ServerTLS      `mapstructure:"tls" reload:"restart"`
	UpstreamTLS       UpstreamTLS    `mapstructure:"upstream_tls" reload:"live"`
	Clients           Clients        `mapstructure:"clients" reload:"live"`
}

// Observes reports whether the account changes nothing and tells what it would do.
func (p Provider) Observes() bool { return p.Mode == "observe" }

// ChecksHosts reports whether requests must call the listener by a name of its own. Where others reach it, who may use it is known by more than
// that, and its names are many.
func (p Provider) ChecksHosts() bool { return loopback(p.Listen) || len(p.Hosts) > 0 }

// UpstreamURL returns the parsed upstream address. It is nil only for a Provider that Load has not checked.
func (p Provider) UpstreamURL() *url.URL {
	u, err := url.Parse(p.Upstream)
	if err != nil {
		return nil
	}
	return u
}

// Auth says whose credentials go upstream. Each type has fields of its own; the others must be empty.
type Auth struct {
	Type      string   `mapstructure:"type,omitempty" doc:"passthrough (the worker's own credentials), none, sigv4, header, google_adc or azure_entra. Empty: sigv4 for kind textract, else passthrough; in replay_auth: none of its own."`
	Region    string   `mapstructure:"region,omitempty" doc:"sigv4: region of the signature. Empty: AWS_REGION, then AWS_DEFAULT_REGION."`
	Service   string   `mapstructure:"service,omitempty" doc:"sigv4: service of the signature. Empty: textract."`
	Profile   string   `mapstructure:"profile,omitempty" doc:"sigv4: profile of the AWS credential chain. Empty: the chain's default."`
	RoleARN   string   `mapstructure:"role_arn,omitempty" doc:"sigv4: ARN of a role to assume with the chain's credentials. Empty: none."`
	Header    string   `mapstructure:"header,omitempty" doc:"header: name of the header that carries the key."`
	Scheme    string   `mapstructure:"scheme,omitempty" doc:"header: word before the key, such as Bearer. Empty: none."`
	ValueFile string   `mapstructure:"value_file,omitempty" doc:"header: file that holds the key, read again when it changes. This or value_env."`
	ValueEnv  string   `mapstructure:"value_env,omitempty" doc:"header: name of the environment variable that holds the key. This or value_file."`
	Scopes    []string `mapstructure:"scopes,omitempty" doc:"google_adc: OAuth scopes. Empty: https://www.googleapis.com/auth/cloud-platform."`
	Scope     string   `mapstructure:"scope,omitempty" doc:"azure_entra: OAuth scope. Empty: https://cognitiveservices.azure.com/.default."`
}

// OwnCredential reports whether the proxy itself decides which credential goes upstream, so that a request needs none of
// the worker's. It is true for every type but passthrough.
func (a Auth) OwnCredential() bool { return a.Type != AuthPassthrough && a.Type != "" }

// AddsCredential reports whether the proxy adds a credential, which whoever reaches the listener can then use.
func (a Auth) AddsCredential() bool { return a.OwnCredential() && a.Type != AuthNone }

// The values of Auth.Type.
const (
	// AuthPassthrough sends the worker's own credentials on.
	AuthPassthrough = "passthrough"
	// AuthNone sends none: an upstream that asks for no credential.
	AuthNone = "none"
	// AuthSigV4 signs each attempt with the standard AWS credential chain, or with a role assumed by it.
	AuthSigV4 = "sigv4"
	// AuthHeader puts a key into a header.
	AuthHeader = "header"
	// AuthGoogleADC uses a token of Google's application default credentials.
	AuthGoogleADC = "google_adc"
	// AuthAzureEntra uses an Entra ID token of the Azure SDK's default chain.
	AuthAzureEntra = "azure_entra"
)

// Rule is one classification row of an account. At least one of Status and Code is given.
type Rule struct {
	Status int    `mapstructure:"status,omitempty" doc:"HTTP status, 100 to 599. 0: any."`
	Code   string `mapstructure:"code,omitempty" doc:"Error code of the provider. Empty: any."`
	Class  string `mapstructure:"class" doc:"throttle, transient, permanent, auth, quota, unknown or success."`
}

// ServerTLS makes a listener serve TLS.
type ServerTLS struct {
	CertFile     string `mapstructure:"cert_file,omitempty" doc:"PEM file with the certificate chain. Empty: plain HTTP. What is in this file and the next two is read again when it changes."`
	KeyFile      string `mapstructure:"key_file,omitempty" doc:"PEM file with the private key."`
	ClientCAFile string `mapstructure:"client_ca_file,omitempty" doc:"PEM file with the authorities that a client's certificate must come from. Empty: none is asked for."`
}

// Enabled reports whether the listener serves TLS.
func (t ServerTLS) Enabled() bool { return t.CertFile != "" }

// UpstreamTLS changes how an upstream's certificate is verified.
type UpstreamTLS struct {
	CAFile string `mapstructure:"ca_file,omitempty" doc:"PEM file with authorities trusted for this upstream, beside the system's. Empty: the system's alone."`
}

// Clients says who may use an account.
type Clients struct {
	TokenFile string `mapstructure:"token_file,omitempty" doc:"File with the tokens of the workers that may use this account, one a line, each of 16 to 512 characters; a worker shows one where its client library puts the key. It is read again when it changes. Empty: everyone who reaches the listener."`
}

// Kinds returns the provider kinds in the order in which they are documented.
func Kinds() []string {
	return []string{"textract", "azure", "documentai", "vision", "mistral", "ocrspace", "openai", "tika", "generic"}
}

package config

import (
	"encoding/base64"
	"net/url"
	"strings"
	"time"
)

// Webhook tells another service about new dead letters.
type Webhook struct {
	URL        MaskedURL     `mapstructure:"url" doc:"Address that is told about each new letter and each circuit that opens or closes; only its scheme and host are ever shown. Empty: off."`
	SecretFile string        `mapstructure:"secret_file" doc:"File with the signing secret; whsec_ followed by base64 is decoded, anything else is used as it is. Empty: unsigned."`
	Timeout    time.Duration `mapstructure:"timeout" doc:"Time for one delivery attempt. More than 0s."`
}

// base64Secret begins a secret that is written in base64, as the Standard Webhooks specification has it.
const base64Secret = "whsec_"

// SigningKey reads the key that events are signed with from SecretFile. The error is an *InvalidError that never holds any of it.
func (w Webhook) SigningKey() ([]byte, error) {
	const key = "dead_letters.webhook.secret_file"
	secret, err := ReadSecretFile(key, w.SecretFile)
	if err != nil {
		return nil, err
	}
	text, encoded := strings.CutPrefix(secret.Reveal(), base64Secret)
	if !encoded {
		return []byte(text), nil
	}
	decoded, err := base64.StdEncoding.DecodeString(text)
	if err != nil || len(decoded) == 0 {
		return nil, invalid(key, "the file %q begins with %s, but what follows is not base64", w.SecretFile, base64Secret)
	}
	return decoded, nil
}

// Address is where events go, in parts; nil when there is no webhook. The configuration is one that was checked.
func (w Webhook) Address() *url.URL {
	u, err := url.Parse(w.URL.Reveal())
	if err != nil || w.URL == "" {
		return nil
	}
	return u
}

package share

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

const (
	// patience is how long the server may take to be reached, and to answer. What is shared is a help and never worth waiting for.
	patience = 300 * time.Millisecond
	// connections is how many there are at most, however many accounts share.
	connections = 8
)

// connection turns an address into the settings of a client. Its errors repeat nothing of the address, which holds a password.
func connection(address string, roots *x509.CertPool) (*redis.Options, error) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "redis" && u.Scheme != "rediss" || u.Hostname() == "" {
		return nil, errors.New("must be an address with a host that begins with redis:// or rediss://")
	}
	if u.RawQuery != "" || u.Fragment != "" {
		return nil, errors.New("must have nothing after the host but the number of a database")
	}
	database := 0
	if path := strings.TrimPrefix(u.Path, "/"); path != "" {
		if database, err = strconv.Atoi(path); err != nil || database < 0 {
			return nil, errors.New("must have nothing after the host but the number of a database")
		}
	}
	port := u.Port()
	if port == "" {
		port = "6379"
	}
	o := &redis.Options{
		Addr: net.JoinHostPort(u.Hostname(), port), DB: database, Protocol: 2,
		DialTimeout: patience, ReadTimeout: patience, WriteTimeout: patience, PoolTimeout: patience, ContextTimeoutEnabled: true,
		PoolSize: connections, MaxActiveConns: connections,
		// A command whose answer was lost may have been carried out: to send it again is for who knows what it does. A server that cannot
		// be reached is asked again by the next round anyway.
		MaxRetries: -1, DialerRetries: 1,
		DisableIdentity:          true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
	if u.User != nil {
		o.Username = u.User.Username()
		o.Password, _ = u.User.Password()
	}
	if u.Scheme == "rediss" {
		o.TLSConfig = &tls.Config{ServerName: u.Hostname(), RootCAs: roots, MinVersion: tls.VersionTLS12}
	}
	return o, nil
}

// describe tells what went wrong without repeating what a server said: some repeat the password in it. Of an answer only its first word,
// which is its code, is told.
func describe(err error) string {
	if answer, ok := errors.AsType[redis.Error](err); ok {
		code, _, _ := strings.Cut(answer.Error(), " ")
		if len(code) > longestCode || strings.ToUpper(code) != code {
			code = "an error"
		}
		return "the server answered " + code
	}
	return err.Error()
}

// longestCode is more than the length of any code, in bytes.
const longestCode = 16

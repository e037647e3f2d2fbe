package client

import (
	"io"
	"log"
)

// quiet is for a server whose complaints a test provokes.
func quiet() *log.Logger { return log.New(io.Discard, "", 0) }

// otherCertificate is of a key that nobody has kept.
const otherCertificate = `-----BEGIN CERTIFICATE-----
MIIBdzCCAR2gAwIBAgIUEcKqCv/lSELudOYC0yEFNjbnpm8wCgYIKoZIzj0EAwIw
EDEOMAwGA1UEAwwFb3RoZXIwIBcNMjYxMTMwMTc0NjE0WhgPMjEyNjExMDYxNzQ2
MTRaMBAxDjAMBgNVBAMMBW90aGVyMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE
sWqbq/6UHoKbiEX6JtMrwW14n4APtCrN2kCKjnJMfFfeNGnUSVy0kKX14A/mNLA5
PzrodO64si/S+CuF+r5GRKNTMFEwHQYDVR0OBBYEFIv9TpXChQ9O3MJGcqwUAk8C
jEOhMB8GA1UdIwQYMBaAFIv9TpXChQ9O3MJGcqwUAk8CjEOhMA8GA1UdEwEB/wQF
MAMBAf8wCgYIKoZIzj0EAwIDSAAwRQIgdq52C8VYSXZV/EInFJx0mQVQxv6lT/op
7LfpLljpsnUCIQDQ8/zQRRfpQxC5bwyGdH/KqgozkiDCU8M76I0M5D/F9Q==
-----END CERTIFICATE-----`

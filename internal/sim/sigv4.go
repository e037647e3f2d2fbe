package sim

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Signatures makes a simulator of kind textract check AWS Signature Version 4, more strictly than AWS does. What does not pass is answered
// with status 400 and counted as rejected; it has used up its step of a script.
type Signatures struct {
	// KeyID and Secret are the only keys that are accepted. Both are needed.
	KeyID, Secret string
	// Token is the session token that every request must carry, signed. Empty: none may be sent.
	Token string
	// Region is the region that the scope must name. Empty: us-east-1.
	Region string
	// Window is how far a request's date may be from the simulator's clock when it arrives. 0: two seconds.
	Window time.Duration
}

// ParseSignatures reads KEYID=SECRET or KEYID=SECRET,TOKEN. The error does not repeat what it was given.
func ParseSignatures(text string) (*Signatures, error) {
	id, rest, _ := strings.Cut(text, "=")
	secret, token, _ := strings.Cut(rest, ",")
	if id == "" || secret == "" {
		return nil, errors.New("the keys must be given as KEYID=SECRET or KEYID=SECRET,TOKEN")
	}
	return &Signatures{KeyID: id, Secret: secret, Token: token}, nil
}

const (
	signatureAlgorithm = "AWS4-HMAC-SHA256"
	signatureService   = "textract"
	signatureDate      = "20060102T150405Z"
	signatureWindow    = 2 * time.Second
	signatureRegion    = "us-east-1"
)

// signed is what a request says about its signature.
type signed struct {
	keyID     string
	scope     []string // day, region, service, aws4_request
	headers   []string // lower case, as listed
	signature string
	date      string
}

// check returns the error that AWS would answer with, or nil.
func (s *Signatures) check(r *http.Request, body []byte, now time.Time) *textractError {
	refuse := func(format string, args ...any) *textractError {
		return &textractError{"InvalidSignatureException", fmt.Sprintf(format, args...)}
	}
	for _, name := range [...]string{"Authorization", "X-Amz-Date", "X-Amz-Security-Token", "X-Amz-Content-Sha256"} {
		if n := len(r.Header.Values(name)); n > 1 {
			return refuse("The request has %d %s headers.", n, name)
		}
	}
	told, err := readSignature(r.Header)
	if err != nil {
		return refuse("%s", err)
	}
	if told.keyID != s.KeyID {
		return &textractError{"UnrecognizedClientException", "The security token included in the request is invalid."}
	}
	if fault := s.checkDate(told, now); fault != "" {
		return refuse("%s", fault)
	}
	if got := r.Header.Get("X-Amz-Security-Token"); got != s.Token {
		return refuse("The security token included in the request is missing, unexpected or another one.")
	}
	if fault := checkHeaders(told, r); fault != "" {
		return refuse("%s", fault)
	}
	hash := hashOf(body)
	if claimed := r.Header.Get("X-Amz-Content-Sha256"); claimed != "" && claimed != hash {
		return refuse("The provided x-amz-content-sha256 header does not match what was computed.")
	}
	if !hmac.Equal([]byte(s.sign(told, canonicalRequest(r, told.headers, hash))), []byte(told.signature)) {
		return refuse("The request signature we calculated does not match the signature you provided. " +
			"Check your AWS Secret Access Key and signing method. Consult the service documentation for details.")
	}
	return nil
}

// readSignature takes the headers apart, without judging them.
func readSignature(h http.Header) (signed, error) {
	rest, ok := strings.CutPrefix(h.Get("Authorization"), signatureAlgorithm+" ")
	if !ok {
		return signed{}, errors.New("the Authorization header is missing or not of the algorithm " + signatureAlgorithm)
	}
	parts := map[string]string{}
	for part := range strings.SplitSeq(rest, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		if _, twice := parts[name]; twice {
			return signed{}, errors.New("the Authorization header names a part twice")
		}
		parts[name] = value
	}
	scope := strings.Split(parts["Credential"], "/")
	if len(scope) != 5 || parts["SignedHeaders"] == "" || parts["Signature"] == "" || len(parts) != 3 {
		return signed{}, errors.New("the Authorization header needs Credential, SignedHeaders and Signature")
	}
	return signed{
		keyID: scope[0], scope: scope[1:], headers: strings.Split(parts["SignedHeaders"], ";"), signature: parts["Signature"],
		date: h.Get("X-Amz-Date"),
	}, nil
}

// checkDate looks at the date and at the scope, which repeats its day.
func (s *Signatures) checkDate(told signed, now time.Time) string {
	at, err := time.Parse(signatureDate, told.date)
	if err != nil {
		return "The X-Amz-Date header is missing or no date."
	}
	region, window := s.Region, s.Window
	if region == "" {
		region = signatureRegion
	}
	if window == 0 {
		window = signatureWindow
	}
	want := []string{at.Format("20060102"), region, signatureService, "aws4_request"}
	clock := now.UTC().Format(signatureDate)
	switch {
	case !slices.Equal(told.scope, want):
		return "Credential should be scoped to " + strings.Join(want, "/") + "."
	case now.Sub(at) > window:
		return fmt.Sprintf("Signature expired: %s is now earlier than %s (%s - %s)", told.date, now.Add(-window).UTC().Format(signatureDate), clock, window)
	case at.Sub(now) > window:
		return fmt.Sprintf("Signature not yet current: %s is still later than %s (%s + %s)", told.date, now.Add(window).UTC().Format(signatureDate), clock, window)
	}
	return ""
}

// checkHeaders wants host and date signed, and every x-amz- header that was sent; and what is listed must be there.
func checkHeaders(told signed, r *http.Request) string {
	if !slices.IsSorted(told.headers) || len(slices.Compact(slices.Clone(told.headers))) != len(told.headers) {
		return "SignedHeaders must be sorted, each name once."
	}
	must := []string{"host", "x-amz-date"}
	for name := range r.Header {
		if lower := strings.ToLower(name); strings.HasPrefix(lower, "x-amz-") {
			must = append(must, lower)
		}
	}
	for _, name := range must {
		if !slices.Contains(told.headers, name) {
			return "The header " + name + " must be signed."
		}
	}
	for _, name := range told.headers {
		if name != strings.ToLower(name) || len(headerValues(r, name)) == 0 {
			return "SignedHeaders names a header that was not sent."
		}
	}
	return ""
}

// headerValues are a header's values as they arrived; the server keeps two headers elsewhere.
func headerValues(r *http.Request, name string) []string {
	switch {
	case name == "host" && r.Host != "":
		return []string{r.Host}
	case name == "content-length" && r.ContentLength >= 0:
		return []string{strconv.FormatInt(r.ContentLength, 10)}
	}
	return r.Header.Values(name)
}

// canonicalRequest is the form of the request that is signed. Every service but S3 escapes the path as it stands on the wire once more.
func canonicalRequest(r *http.Request, headers []string, bodyHash string) string {
	path, query, _ := strings.Cut(r.RequestURI, "?")
	var b strings.Builder
	b.WriteString(r.Method + "\n" + strings.ReplaceAll(escape(path), "%2F", "/") + "\n" + canonicalQuery(query) + "\n")
	for _, name := range headers {
		var values []string
		for _, value := range headerValues(r, name) {
			values = append(values, strings.Join(strings.Fields(value), " "))
		}
		b.WriteString(name + ":" + strings.Join(values, ",") + "\n")
	}
	b.WriteString("\n" + strings.Join(headers, ";") + "\n" + bodyHash)
	return b.String()
}

// canonicalQuery sorts the parameters and escapes each name and value anew.
func canonicalQuery(query string) string {
	var pairs []string
	for pair := range strings.SplitSeq(query, "&") {
		if pair == "" {
			continue
		}
		name, value, _ := strings.Cut(pair, "=")
		pairs = append(pairs, escape(unescape(name))+"="+escape(unescape(value)))
	}
	slices.Sort(pairs)
	return strings.Join(pairs, "&")
}

func unescape(s string) string {
	if plain, err := url.QueryUnescape(s); err == nil {
		return plain
	}
	return s
}

// escape percent-encodes all but letters, digits and "-._~".
func escape(s string) string {
	return strings.ReplaceAll(url.QueryEscape(s), "+", "%20")
}

// sign computes the signature that the request should have.
func (s *Signatures) sign(told signed, canonical string) string {
	key := []byte("AWS4" + s.Secret)
	for _, part := range told.scope {
		key = keyedHash(key, part)
	}
	text := strings.Join([]string{signatureAlgorithm, told.date, strings.Join(told.scope, "/"), hashOf([]byte(canonical))}, "\n")
	return hex.EncodeToString(keyedHash(key, text))
}

func keyedHash(key []byte, text string) []byte {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(text))
	return mac.Sum(nil)
}

func hashOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

package fingerprint

import (
	"net/url"
	"slices"
	"strings"
)

// isURL reports whether the text of an embedded document is a location after all.
func isURL(text []byte) bool {
	return isWeb(text) || hasPrefixFold(text, "gs://") || hasPrefixFold(text, "s3://")
}

func isWeb(text []byte) bool {
	return hasPrefixFold(text, "https://") || hasPrefixFold(text, "http://")
}

// location returns a reference without query and fragment. Only web addresses have those: in gs:// and s3:// a question mark or a hash
// sign is part of an object's name, and anything else is an opaque name.
func location(ref string) string {
	if isWeb([]byte(ref)) {
		if i := strings.IndexAny(ref, "?#"); i >= 0 {
			return ref[:i]
		}
	}
	return ref
}

// unsigned returns a reference without fragment and without those parts of the query that change whenever the URL is signed anew. The
// rest of the query stays: in https://archive/get?id=17 it is the document, and requests about different documents must not be equal.
func unsigned(ref string) string {
	base := location(ref)
	query, _, _ := strings.Cut(ref[len(base):], "#")
	if len(query) < 2 || query[0] != '?' {
		return base
	}
	pairs := strings.Split(query[1:], "&")
	signed := false
	for _, pair := range pairs {
		name := parameter(pair)
		signed = signed || name == "sig" || name == "signature"
	}
	kept := slices.DeleteFunc(pairs, func(pair string) bool {
		name := parameter(pair)
		return isSigning(name) || signed && accompanies(name)
	})
	if len(kept) == 0 {
		return base
	}
	return base + "?" + strings.Join(kept, "&")
}

func parameter(pair string) string {
	name, _, _ := strings.Cut(pair, "=")
	if plain, err := url.QueryUnescape(name); err == nil {
		name = plain
	}
	return strings.ToLower(name)
}

// isSigning reports whether a parameter belongs to a signature by its name alone.
func isSigning(name string) bool {
	return strings.HasPrefix(name, "x-amz-") || strings.HasPrefix(name, "x-goog-")
}

// accompanies reports whether a parameter belongs to the signature of a URL that has one. Most of these names are too common to go by
// without it.
func accompanies(name string) bool {
	switch name {
	// Azure shared access signatures.
	case "sig", "sv", "se", "st", "sp", "spr", "sr", "ss", "srt", "sip", "si", "ses", "sdd", "scid",
		"skoid", "sktid", "skt", "ske", "sks", "skv", "saoid", "suoid", "skdutid", "sduoid":
		return true
	// S3 version 2, Google Cloud Storage version 2, CloudFront, Alibaba OSS.
	case "signature", "expires", "awsaccesskeyid", "googleaccessid", "policy", "key-pair-id", "ossaccesskeyid", "security-token":
		return true
	}
	return false
}

// storageObject collects the members of an object that names another one in object storage.
type storageObject struct {
	at                    role
	bucket, name, version []byte
	field                 *[]byte // The member being read; nil for others.
	tooLong               bool
}

// maxField is more than any bucket, name or version may have.
const maxField = 4 << 10

func (o *storageObject) member(name []byte) {
	switch string(name) {
	case "Bucket":
		o.field = &o.bucket
	case "Name":
		o.field = &o.name
	case "Version":
		o.field = &o.version
	default:
		o.field = nil
		return
	}
	*o.field = (*o.field)[:0]
}

func (o *storageObject) write(part []byte) {
	switch {
	case o.field == nil:
	case len(*o.field)+len(part) > maxField:
		o.tooLong = true
	default:
		*o.field = append(*o.field, part...)
	}
}

// location returns where the object is, or false when it names none.
func (o *storageObject) location() (string, bool) {
	if o.tooLong || len(o.bucket) == 0 || len(o.name) == 0 {
		return "", false
	}
	place := "s3://" + string(o.bucket) + "/" + string(o.name)
	if len(o.version) > 0 {
		place += "?versionId=" + string(o.version)
	}
	return place, true
}

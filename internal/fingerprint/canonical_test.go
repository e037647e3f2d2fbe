package fingerprint_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ocr-proxy/ocr-proxy/internal/fingerprint"
)

func equal(t *testing.T, a, b fingerprint.Request, l fingerprint.Layout) {
	t.Helper()
	require.Equal(t, compute(t, a, l).Fingerprint, compute(t, b, l).Fingerprint)
}

func differ(t *testing.T, a, b fingerprint.Request, l fingerprint.Layout) {
	t.Helper()
	require.NotEqual(t, compute(t, a, l).Fingerprint, compute(t, b, l).Fingerprint)
}

func TestFingerprintOfEqualJSON(t *testing.T) {
	t.Parallel()
	base := request(jsonType, `{"base64Source":"QUJD","o":{"a":1,"b":[true,null,"é"]},"apikey":"one","n":-0.5}`)
	for _, other := range []string{
		"{ \"n\" : -0.5,\r\n\t\"o\": {\"b\":[true ,null, \"\\u00e9\"], \"a\":1}, \"base64Source\": \"QUJD\", \"apikey\":\"two\" }",
		`{"base64Source":"QUJD","o":{"a":1,"b":[true,null,"é"]},"n":-0.5}`,
		`{"base64Source":"QU\nJD","o":{"a":1,"b":[true,null,"é"]},"n":-0.5}`,
		`{"\u0062ase64Source":"QUJD","o":{"a":1,"b":[true,null,"é"]},"n":-0.5}`,
	} {
		equal(t, base, request(jsonType, other), azure())
		equal(t, base, request("application/json; charset=utf-8", other), azure())
		equal(t, base, request("", other), azure())
	}
}

func TestFingerprintDependsOnEveryOption(t *testing.T) {
	t.Parallel()
	seen := map[string]string{}
	for _, body := range []string{
		`{"base64Source":"QUJD"}`,
		`{"base64Source":"QUJE"}`,
		`{"base64Source":"data:,ABC"}`,
		`{"base64Source":"data:text/plain,ABC"}`,
		`{"base64source":"QUJD"}`,
		`{"base64Source":"QUJD","x":1}`,
		`{"base64Source":"QUJD","x":"1"}`,
		`{"base64Source":"QUJD","x":"true"}`,
		`{"base64Source":"QUJD","x":true}`,
		`{"base64Source":"QUJD","x":null}`,
		`{"base64Source":"QUJD","x":{}}`,
		`{"base64Source":"QUJD","x":[]}`,
		`{"base64Source":"QUJD","x":[[]]}`,
		`{"base64Source":"QUJD","x":[1,2]}`,
		`{"base64Source":"QUJD","x":[2,1]}`,
		`{"base64Source":"QUJD","x":["1","2"]}`,
		`{"base64Source":"QUJD","x":["12"]}`,
		`{"base64Source":"QUJD","x":{"a":"b"}}`,
		`{"base64Source":"QUJD","x":{"b":"a"}}`,
		`{"base64Source":"QUJD","x":1,"y":2}`,
		`{"base64Source":"QUJD","x":2,"y":1}`,
		`{"base64Source":"QUJD","x":1,"x":2}`,
		`{"base64Source":"QUJD","x":2,"x":1}`,
		`{"base64Source":"QUJD","nested":{"apikey":"1"}}`,
		`{"base64Source":"QUJD","nested":{"apikey":"2"}}`,
		`{"base64Source":"QUJD","apikey":{"an":"option"}}`,
		`{"urlSource":"QUJD"}`,
		`{"urlSource":"https://h/a"}`,
		`{"base64Source":"https://h/a"}`,
		`{"urlSource":"https://h/b"}`,
		`{"urlSource":"https://h/get?id=17"}`,
		`{"urlSource":"https://h/get?id=18"}`,
		`["base64Source","QUJD"]`,
		`"QUJD"`,
		`1`,
	} {
		got := compute(t, request(jsonType, body), azure()).Fingerprint
		require.NotContains(t, seen, got, "%s and %s", body, seen[got])
		seen[got] = body
	}
}

func TestFingerprintDependsOnTheRequest(t *testing.T) {
	t.Parallel()
	base := request("application/pdf", "doc")
	for name, change := range map[string]func(*fingerprint.Request){
		"kind":         func(r *fingerprint.Request) { r.Kind = "k2" },
		"operation":    func(r *fingerprint.Request) { r.Operation = "op2" },
		"method":       func(r *fingerprint.Request) { r.Method = "PUT" },
		"path":         func(r *fingerprint.Request) { r.Path = "/p2" },
		"shifted":      func(r *fingerprint.Request) { r.Kind, r.Operation = "ko", "p" },
		"query value":  func(r *fingerprint.Request) { r.RawQuery = "v=2" },
		"query name":   func(r *fingerprint.Request) { r.RawQuery = "w=1" },
		"query more":   func(r *fingerprint.Request) { r.RawQuery = "v=1&v=1" },
		"content type": func(r *fingerprint.Request) { r.ContentType = "image/png" },
	} {
		other := base
		change(&other)
		require.NotEqual(t, compute(t, base, azure()).Fingerprint, compute(t, other, azure()).Fingerprint, name)
	}
	version := base
	version.ProcessingVersion = "v8"
	require.Equal(t, compute(t, base, azure()).Fingerprint, compute(t, version, azure()).Fingerprint)
	require.NotEqual(t, compute(t, base, azure()).Idempotency, compute(t, version, azure()).Idempotency)
}

func TestFingerprintOfQueries(t *testing.T) {
	t.Parallel()
	with := func(query string) fingerprint.Request {
		r := request("application/pdf", "doc")
		r.RawQuery = query
		return r
	}
	equal(t, with("a=1&b=2"), with("b=2&a=1"), azure())
	equal(t, with("a=1&b=2"), with("key=SECRET&b=2&a=1&&"), azure())
	equal(t, with("a=x y"), with("%61=x+y"), azure())
	equal(t, with("$alt=json;enum-encoding=int"), with("$alt=json%3Benum-encoding=int"), azure())
	differ(t, with("a=1&a=2"), with("a=2&a=1"), azure())
	differ(t, with("a=1"), with("a=1&b"), azure())
	differ(t, with("a=1&b=2"), with("a=1%26b=2"), azure())
}

func TestIgnoredPathsAreNoPartOfTheFingerprint(t *testing.T) {
	t.Parallel()
	const start = `{"DocumentLocation":{"S3Object":{"Bucket":"b","Name":"n"}}`
	equal(t, request(awsType, start+`}`), request(awsType, start+`,"ClientRequestToken":"t1"}`), textract())
	equal(t, request(awsType, start+`}`), request(awsType, start+`,"ClientRequestToken":{"a":[1]}}`), textract())
	differ(t, request(awsType, start+`}`), request(awsType, start+`,"JobTag":"t1"}`), textract())

	list := fingerprint.Layout{Ignore: []string{"list[].id", "calls[]"}}
	equal(t, request(jsonType, `{"list":[{"id":1,"x":2}],"calls":[1,"a",[2],{}]}`), request(jsonType, `{"list":[{"x":2}],"calls":[]}`), list)
}

func TestSignedURLs(t *testing.T) {
	t.Parallel()
	with := func(url string) fingerprint.Request { return request(jsonType, `{"urlSource":"`+url+`"}`) }
	const blob = "https://a.blob.core.windows.net/c/d.pdf"
	for _, c := range [][2]string{
		{blob, blob + "?sv=2024&st=a&se=b&sr=b&sp=r&sig=abc%3D#page=2"},
		{blob + "?sv=2024&se=b&sig=1", blob + "?sv=2025&se=c&sig=2"},
		{blob + "?versionid=7&sv=1&sig=1", blob + "?versionid=7&sv=2&sig=2"},
		{"https://b.s3.amazonaws.com/k", "https://b.s3.amazonaws.com/k?X-Amz-Date=1&X-Amz-Signature=2&x-amz-credential=3&X-Amz-Expires=4"},
		{"https://storage.googleapis.com/b/k", "https://storage.googleapis.com/b/k?X-Goog-Signature=2&X-Goog-Date=3"},
		{"https://d.cloudfront.net/k", "https://d.cloudfront.net/k?Expires=1&Signature=2&Key-Pair-Id=3"},
	} {
		equal(t, with(c[0]), with(c[1]), azure())
	}
	for _, c := range [][2]string{
		{blob + "?versionid=7&sig=1", blob + "?versionid=8&sig=1"},
		{"https://h/get?id=1", "https://h/get?id=2"},
		{"https://h/get?key=1", "https://h/get?key=2"}, // Signed it would be a credential; here it may be the document.
		{"https://h/get?st=1", "https://h/get?st=2"},
		{"gs://b/a?1", "gs://b/a?2"},
	} {
		differ(t, with(c[0]), with(c[1]), azure())
	}
}

func TestFingerprintOfMultipart(t *testing.T) {
	t.Parallel()
	with := func(boundary string, fields ...[2]string) fingerprint.Request {
		return request(multipartBody(t, boundary, fields...))
	}
	lang, engine, apikey := [2]string{"language", "eng"}, [2]string{"OCREngine", "2"}, [2]string{"apikey", "SECRET"}
	file, renamed := [2]string{"@file;tmp123.png;image/png", "page"}, [2]string{"@file;tmp456.PNG;image/png; x=y", "page"}
	base := with("b1", lang, engine, file)
	equal(t, base, with("another-boundary", lang, engine, file), ocrSpace())
	equal(t, base, with("b1", file, apikey, engine, lang), ocrSpace())
	equal(t, base, with("b1", lang, engine, renamed), ocrSpace())
	for _, other := range []fingerprint.Request{
		with("b1", lang, file),
		with("b1", lang, engine, engine, file),
		with("b1", [2]string{"language", "ger"}, engine, file),
		with("b1", lang, engine, [2]string{"@file;a.png;image/png", "other"}),
		with("b1", lang, engine, [2]string{"@file;a.pdf;image/png", "page"}),
		with("b1", lang, engine, [2]string{"@file;a.png;image/gif", "page"}),
		with("b1", lang, engine, [2]string{"@scan;a.png;image/png", "page"}),
		with("b1", lang, engine, [2]string{"file", "page"}),
	} {
		differ(t, base, other, ocrSpace())
	}
	two, swapped := [2]string{"@file;a.png;image/png", "1"}, [2]string{"@file;a.png;image/png", "2"}
	differ(t, with("b1", two, swapped), with("b1", swapped, two), ocrSpace())
}

func TestFingerprintOfForms(t *testing.T) {
	t.Parallel()
	with := func(body string) fingerprint.Request { return request(formType, body) }
	base := with("language=eng&base64Image=data%3Aimage%2Fpng%3Bbase64%2CQUJD&isTable=true")
	equal(t, base, with("isTable=true&apikey=SECRET&base64Image=data%3Aimage/png;base64,QU%4AD&language=eng&"), ocrSpace())
	differ(t, base, with("language=eng&base64Image=data%3Aimage%2Fpng%3Bbase64%2CQUJE&isTable=true"), ocrSpace())
	differ(t, base, with("language=eng&base64Image=data%3Aimage%2Fpng%3Bbase64%2CQUJD"), ocrSpace())
	differ(t, with("a=1"), with("a=1&a"), ocrSpace())
	equal(t, with("a"), with("a="), ocrSpace())
	equal(t, with("url=https%3A%2F%2Fh%2Fa%3Fsig%3D1"), with("url=https%3A%2F%2Fh%2Fa%3Fsig%3D2"), ocrSpace())
	// A name of any length is told apart to its last byte, on both sides of every limit.
	long := strings.Repeat("n", 100_000)
	differ(t, with(long+"1=x"), with(long+"2=x"), ocrSpace())
}

func TestLongNamesAndNumbersCount(t *testing.T) {
	t.Parallel()
	name, number := strings.Repeat("n", 100_000), strings.Repeat("1", 100_000)
	differ(t, request(jsonType, `{"`+name+`1":0}`), request(jsonType, `{"`+name+`2":0}`), azure())
	differ(t, request(jsonType, `[`+number+`1]`), request(jsonType, `[`+number+`2]`), azure())
	equal(t, request(jsonType, `{"`+name+`":1,"b":2}`), request(jsonType, `{"b":2,"`+name+`":1}`), azure())
}

// Any JSON value, written twice in different words.
func TestAnyOrderAnyWhiteSpace(t *testing.T) {
	t.Parallel()
	layout := fingerprint.Layout{Inline: []string{"a.b", "c[].a", "c.c"}, Refs: []string{"b", "d[]"}, Ignore: []string{"e"}}
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 1))
		value := object(rng, 4)
		one, two := write(rng, value), write(rng, value)
		require.True(t, json.Valid([]byte(one)), one)
		a, b := compute(t, request(jsonType, one), layout), compute(t, request(jsonType, two), layout)
		require.Equal(t, a.Fingerprint, b.Fingerprint, "seed %d\n%s\n%s", seed, one, two)
		if a.Idempotency != b.Idempotency {
			// Only a body without a document may differ: it counts byte for byte.
			require.Equal(t, key(one), a.Idempotency, "seed %d\n%s\n%s", seed, one, two)
			require.Equal(t, key(two), b.Idempotency, "seed %d\n%s\n%s", seed, one, two)
		}
	}
}

type members struct {
	names  []string
	values []any
}

func object(rng *rand.Rand, depth int) members {
	var o members
	for _, name := range []string{"a", "b", "c", "d", "e", "Bucket", "Name"} {
		if rng.IntN(2) == 0 {
			o.names, o.values = append(o.names, name), append(o.values, anything(rng, depth-1))
		}
	}
	return o
}

func anything(rng *rand.Rand, depth int) any {
	if depth > 0 {
		switch rng.IntN(3) {
		case 0:
			return object(rng, depth)
		case 1:
			list := make([]any, rng.IntN(4))
			for i := range list {
				list[i] = anything(rng, depth-1)
			}
			return list
		}
	}
	return []any{nil, true, 1.5, "QUJD", "text!", "https://h/a?id=1&sig=2", "data:,x", ""}[rng.IntN(8)]
}

func write(rng *rand.Rand, v any) string {
	blank := func() string { return []string{"", " ", "\n\t", "\r\n  "}[rng.IntN(4)] }
	var items []string
	switch v := v.(type) {
	case members:
		for _, i := range rng.Perm(len(v.names)) {
			items = append(items, blank()+fmt.Sprintf("%q", v.names[i])+blank()+":"+write(rng, v.values[i]))
		}
		return blank() + "{" + strings.Join(items, ",") + blank() + "}" + blank()
	case []any:
		for _, item := range v {
			items = append(items, write(rng, item))
		}
		return blank() + "[" + strings.Join(items, ",") + blank() + "]" + blank()
	}
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return blank() + string(text) + blank()
}

// Fingerprints are written into dead letters and become tokens at providers, so they outlive a release. The sums were computed by another
// program from the description in digest.go.
func TestFingerprintsStayTheSameOverReleases(t *testing.T) {
	t.Parallel()
	require.Equal(t, "02faba24d44924dbd3245be8be6ec2c089842b5de63b5067e1e694556404bdc2", compute(t, request(awsType, `{"Document":{"Bytes":"QUJD"},"FeatureTypes":["TABLES"],"n":1}`), textract()).Fingerprint)
	require.Equal(t, "b90b2f5fae379a6c4992d028de354b7532051fa206b1a68379916f431f8b9855", compute(t, request(formType, "language=eng&url="+url.QueryEscape("https://h/a?id=1")), ocrSpace()).Fingerprint)
	require.Equal(t, "4c80891bf02f816fa2d9c818fd75139f531d7e56aec5209f2a49e60b6c3658b7", compute(t, request("application/pdf", "ABC"), azure()).Fingerprint)
}

package trace

import (
	"net/url"
	"os"
	"strings"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel"
	"go.uber.org/zap"

	"github.com/ocr-proxy/ocr-proxy/internal/scrub"
)

// secretsOf are what errors about the collector must not repeat: the values of the headers that the environment adds to every call to it, and of
// its address all behind the host, since some collectors take their key there.
func secretsOf(address *url.URL) *scrub.Values {
	v := new(scrub.Values)
	if address.Path != defaultPath {
		for _, path := range []string{address.Path, address.EscapedPath()} {
			v.Add(path)
			for part := range strings.SplitSeq(path, "/") {
				v.Add(part)
			}
		}
	}
	for _, name := range []string{"OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_TRACES_HEADERS"} {
		for header := range strings.SplitSeq(os.Getenv(name), ",") {
			_, value, _ := strings.Cut(header, "=")
			if plain, err := url.PathUnescape(value); err == nil {
				value = plain
			}
			for word := range strings.FieldsSeq(value) {
				v.Add(word)
			}
		}
	}
	return v
}

// remarks is where the library says which variable it could not read. It tells the variable's value with it, which may be a key in the wrong
// form, so that nothing but its own fixed words goes on to the log.
type remarks struct{ log *zap.Logger }

// hearRemarks has them logged. There is one place for the whole process; without this it is standard error.
func hearRemarks(log *zap.Logger) { otel.SetLogger(logr.New(remarks{log})) }

// Init implements logr.LogSink.
func (remarks) Init(logr.RuntimeInfo) {}

// Enabled implements logr.LogSink: of the library's levels only its errors and warnings are about something that somebody can change.
func (remarks) Enabled(level int) bool { return level <= warnings }

// Info implements logr.LogSink.
func (r remarks) Info(_ int, message string, _ ...any) { r.tell(message) }

// Error implements logr.LogSink.
func (r remarks) Error(_ error, message string, _ ...any) { r.tell(message) }

// WithValues implements logr.LogSink.
func (r remarks) WithValues(...any) logr.LogSink { return r }

// WithName implements logr.LogSink.
func (r remarks) WithName(string) logr.LogSink { return r }

// warnings is the library's level for them.
const warnings = 1

func (r remarks) tell(message string) {
	r.log.Warn("a variable OTEL_* of the environment, or a part of one, cannot be used and is left out; its value is not repeated here", zap.String("problem", message))
}

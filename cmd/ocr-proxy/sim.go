package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/ocr-proxy/ocr-proxy/internal/sim"
)

// simFlags is what the command line of "sim" says.
type simFlags struct {
	kind, listen, outages, outageMode, script, engine string
	keys, region                                      string
	window                                            time.Duration
	faults                                            sim.Faults
	seed                                              uint64
	verbose                                           bool
}

// simCommand plays an OCR provider on this machine.
func simCommand() *cobra.Command {
	var f simFlags
	kinds := make([]string, 0, len(sim.Kinds()))
	for _, kind := range sim.Kinds() {
		kinds = append(kinds, string(kind))
	}
	cmd := &cobra.Command{
		Use:   "sim --kind KIND --listen ADDR",
		Short: "Play an OCR provider that speaks the real wire protocol and fails on demand",
		Long: `Plays an OCR provider on this machine: the real client libraries can use it, no account is needed and nothing
is charged. Without faults it answers every well-formed call; a document that is no PDF, PNG, JPEG or TIFF,
or a damaged image, gets the provider's own error. Credentials are not checked unless --verify-sigv4 says so,
and documents that a request only points at (S3, URL) are never fetched.

A request meets at most one fault: a step of the script while there is one, else an outage, else throttling,
else a random error, else a lost answer. The same requests under the same --seed meet the same fate.
Counters are at ` + sim.StatsPath + `.

` + sim.ScriptHelp,
		Example: `  ocr-proxy sim --kind textract --listen 127.0.0.1:9001 --throttle 5 --error-rate 0.05
  ocr-proxy sim --kind azure --listen 127.0.0.1:9002 --outage 10s-20s,40s-45s --outage-mode hang
  ocr-proxy sim --kind mistral --listen 127.0.0.1:9003 --engine tesseract --lose-rate 0.1`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runSim(cmd, f)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.kind, "kind", "", "provider to play: "+strings.Join(kinds, ", ")+" (required)")
	flags.StringVar(&f.listen, "listen", "127.0.0.1:9001", "address to listen on; port 0 takes a free one")
	flags.Uint64Var(&f.seed, "seed", 1, "seed of everything that happens at random")
	flags.StringVar(&f.engine, "engine", "canned", "who reads the documents: canned (nobody, the answer says so) or tesseract")
	flags.Float64Var(&f.faults.ErrorRate, "error-rate", 0, "share of calls, 0 to 1, that fail with a server error")
	flags.Float64Var(&f.faults.LoseRate, "lose-rate", 0, "share of calls, 0 to 1, whose work is done but whose answer is lost")
	flags.Float64Var(&f.faults.ItemErrorRate, "item-error-rate", 0, "share of a Vision batch's images, 0 to 1, that fail inside a 200")
	flags.Float64Var(&f.faults.Throttle, "throttle", 0, "calls per second that are let through, for each operation apart; 0: all")
	flags.IntVar(&f.faults.Burst, "burst", 0, "calls that may come at one moment; 0: one second's worth")
	flags.IntVar(&f.faults.RetryAfter, "retry-after", 0, "seconds in the Retry-After of a throttled answer; 0: no header")
	flags.StringVar(&f.outages, "outage", "", "times since the start at which the provider is gone, such as 10s-20s,40s-45s; 40s- has no end")
	flags.StringVar(&f.outageMode, "outage-mode", string(sim.OutageUnavailable),
		"how it is gone: 503, refuse (no connection) or hang (no answer)")
	flags.DurationVar(&f.faults.Latency, "latency", 0, "time that an answer takes at least")
	flags.DurationVar(&f.faults.LatencyJitter, "latency-jitter", 0, "most that is added to the latency at random")
	flags.DurationVar(&f.faults.JobTime, "job-time", time.Second, "time that an asynchronous job runs")
	flags.StringVar(&f.script, "script", "", "file of scripted answers that are played first (format above)")
	flags.StringVar(&f.keys, "verify-sigv4", "", "textract: accept only requests signed with these keys, KEYID=SECRET[,TOKEN]")
	flags.StringVar(&f.region, "signature-region", "us-east-1", "region that a signature must be made for")
	flags.DurationVar(&f.window, "signature-window", 2*time.Second, "how far a signature's date may be from the clock, more than 0s")
	flags.BoolVar(&f.verbose, "verbose", false, "log one line per request to standard error")
	return cmd
}

func runSim(cmd *cobra.Command, f simFlags) error {
	options, err := f.options(cmd.ErrOrStderr())
	if err != nil {
		return &usageError{cmd.CommandPath(), err}
	}
	server, err := sim.New(options)
	if err != nil {
		return &usageError{cmd.CommandPath(), err}
	}
	ln, err := server.Listen(cmd.Context(), f.listen)
	if err != nil {
		return fmt.Errorf("cannot listen: %w; choose another address with --listen", err)
	}
	base := "http://" + reachable(ln.Addr())
	_, _ = fmt.Fprintf(cmd.OutOrStdout(), "simulated %s on %s (engine %s, seed %d)\nfaults: %s\nworkers: %s\nproxy: upstream: %s\ncounters: %s%s\n",
		options.Kind, base, f.engine, f.seed, options.Faults, simHint(options.Kind, base), base, base, sim.StatsPath)
	server.Start()
	return server.Serve(cmd.Context(), ln)
}

// options turns the flags into what the simulator takes.
func (f simFlags) options(log io.Writer) (sim.Options, error) {
	o := sim.Options{Kind: sim.Kind(f.kind), Faults: f.faults, Seed: f.seed}
	o.Faults.OutageMode = sim.OutageMode(f.outageMode)
	var err error
	if f.keys != "" {
		if f.window <= 0 {
			return o, errors.New("--signature-window must be more than 0s")
		}
		if o.Signatures, err = sim.ParseSignatures(f.keys); err != nil {
			return o, fmt.Errorf("--verify-sigv4: %w", err)
		}
		o.Signatures.Region, o.Signatures.Window = f.region, f.window
	}
	if o.Faults.Outages, err = sim.ParseWindows(f.outages); err != nil {
		return o, err
	}
	if f.script != "" {
		if o.Faults.Script, err = readScript(f.script); err != nil {
			return o, err
		}
	}
	switch f.engine {
	case "canned":
		o.Engine = sim.Canned{}
	case "tesseract":
		if o.Engine, err = sim.NewTesseract(); err != nil {
			return o, err
		}
	default:
		return o, fmt.Errorf("unknown engine %q: use canned or tesseract", f.engine)
	}
	if f.verbose {
		encoding := zap.NewProductionEncoderConfig()
		encoding.EncodeTime = zapcore.ISO8601TimeEncoder
		o.Logger = zap.New(zapcore.NewCore(zapcore.NewConsoleEncoder(encoding), zapcore.Lock(zapcore.AddSync(log)), zap.InfoLevel))
	}
	return o, nil
}

func readScript(path string) ([]sim.Step, error) {
	file, err := os.Open(path) //nolint:gosec // The person at the command line names the file.
	if err != nil {
		return nil, fmt.Errorf("reading the script: %w", err)
	}
	defer func() { _ = file.Close() }()
	steps, err := sim.ParseScript(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return steps, nil
}

// reachable is the address as a client on this machine writes it.
func reachable(addr net.Addr) string {
	tcp, ok := addr.(*net.TCPAddr)
	if !ok || !tcp.IP.IsUnspecified() {
		return addr.String()
	}
	return fmt.Sprintf("127.0.0.1:%d", tcp.Port)
}

// simHint tells how a worker's client library is pointed at the simulator.
func simHint(kind sim.Kind, base string) string {
	switch kind {
	case sim.KindTextract:
		return "export AWS_ENDPOINT_URL_TEXTRACT=" + base + " (or endpoint_url / endpoint in the SDK); any region and keys will do"
	case sim.KindAzure:
		return "endpoint " + base + " with any key (JavaScript: allowInsecureConnection: true)"
	case sim.KindDocumentAI, sim.KindVision:
		return "gRPC without TLS at " + strings.TrimPrefix(base, "http://") + ", or REST transport with api_endpoint " + base + " (Node: fallback: true, protocol: \"http\", apiEndpoint and port apart)"
	case sim.KindMistral:
		return "server_url (Python) or serverURL (TypeScript) " + base + " with any key"
	default:
		return base
	}
}

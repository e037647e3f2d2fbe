// Package compose checks deploy/compose.yaml with the loader of Docker Compose, and runs what it would start, but for the containers.
package compose

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/compose-spec/compose-go/v2/types"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/ocr-proxy/ocr-proxy/deploy/tools/program"
)

const folder = "../.."

func load(t *testing.T, profiles ...string) *types.Project {
	t.Helper()
	options, err := cli.NewProjectOptions([]string{filepath.Join(folder, "compose.yaml")}, cli.WithProfiles(profiles), cli.WithEnv(nil))
	require.NoError(t, err)
	project, err := options.LoadProject(t.Context())
	require.NoError(t, err)
	return project
}

func TestServicesHaveNoPrivilegesAndAreOnLoopback(t *testing.T) {
	require.ElementsMatch(t, []string{"proxy", "provider"}, load(t).ServiceNames(), "monitoring is there when it is asked for")
	project := load(t, "monitoring")
	require.ElementsMatch(t, []string{"proxy", "provider", "prometheus", "grafana"}, project.ServiceNames())
	for name, s := range project.Services {
		require.True(t, s.ReadOnly, name)
		require.Equal(t, []string{"ALL"}, s.CapDrop, name)
		require.Contains(t, s.SecurityOpt, "no-new-privileges:true", name)
		require.False(t, s.Privileged, name)
		for _, port := range s.Ports {
			require.Equal(t, "127.0.0.1", port.HostIP, "%s: %s is open to the network", name, port.Published)
		}
		for _, v := range s.Volumes {
			if v.Type == types.VolumeTypeBind {
				require.True(t, v.ReadOnly, "%s may write to %s", name, v.Source)
				require.FileExists(t, firstFile(t, v.Source))
			}
		}
		require.NotContains(t, []string{"", "latest"}, tagOf(s), "%s: whichever version it is today", name)
	}
}

// firstFile is the path itself, or some file in that folder.
func firstFile(t *testing.T, path string) string {
	t.Helper()
	if entries, err := os.ReadDir(path); err == nil && len(entries) > 0 {
		return filepath.Join(path, entries[len(entries)-1].Name())
	}
	return path
}

// tagOf is the version of an image that somebody else builds.
func tagOf(s types.ServiceConfig) string {
	if s.Build != nil {
		return "built here"
	}
	_, tag, _ := strings.Cut(s.Image, ":")
	return tag
}

func TestProxyIsAskedForItsHealthAndHasTimeToDrain(t *testing.T) {
	proxy := load(t).Services["proxy"]
	require.Equal(t, types.HealthCheckTest{"CMD", "/ocr-proxy", "health", "--config", "/etc/ocr-proxy/config.yaml"}, proxy.HealthCheck.Test)
	require.True(t, slices.ContainsFunc(proxy.Volumes, func(v types.ServiceVolumeConfig) bool {
		return v.Type == types.VolumeTypeVolume && v.Target == "/var/lib/ocr-proxy"
	}), "the dead letters would go with the container")

	text, err := os.ReadFile(filepath.Join(folder, "compose/config.yaml"))
	require.NoError(t, err)
	var effective struct {
		Shutdown struct {
			DrainTimeout string `json:"drain_timeout"`
		} `json:"shutdown"`
		Retry struct {
			TotalBudget string `json:"total_budget"`
		} `json:"retry"`
	}
	require.NoError(t, yaml.Unmarshal([]byte(program.Check(t, program.Build(t), string(text), environment(proxy))), &effective))
	drain, err := time.ParseDuration(effective.Shutdown.DrainTimeout)
	require.NoError(t, err)
	budget, err := time.ParseDuration(effective.Retry.TotalBudget)
	require.NoError(t, err)
	require.Greater(t, drain, budget)
	require.Greater(t, time.Duration(*proxy.StopGracePeriod), drain+10*time.Second)
}

func environment(s types.ServiceConfig) []string {
	var environ []string
	for key, value := range s.Environment {
		if value != nil {
			environ = append(environ, key+"="+*value)
		}
	}
	return environ
}

// The commands and the configuration are those of the containers, with other addresses.
func TestWhatIsStartedReadsAPage(t *testing.T) {
	project := load(t)
	binary := program.Build(t)
	provider, worker, admin := freeAddress(t), freeAddress(t), freeAddress(t)

	simulator := project.Services["provider"].Command
	require.True(t, slices.Contains(simulator, "0.0.0.0:9001"), "other containers could not reach it")
	simulator[slices.Index(simulator, "0.0.0.0:9001")] = provider
	start(t, exec.CommandContext(t.Context(), binary, simulator...))

	text, err := os.ReadFile(filepath.Join(folder, "compose/config.yaml"))
	require.NoError(t, err)
	config := string(text)
	for old, changed := range map[string]string{"http://provider:9001": "http://" + provider, "0.0.0.0:8081": worker, "0.0.0.0:9090": admin} {
		require.Equal(t, 1, strings.Count(config, old), old)
		config = strings.Replace(config, old, changed, 1)
	}
	file := filepath.Join(t.TempDir(), "config.yaml")
	require.NoError(t, os.WriteFile(file, []byte(config), 0o600))
	proxy := exec.CommandContext(t.Context(), binary, "serve", "--config", file)
	proxy.Dir, proxy.Env = t.TempDir(), append(environment(project.Services["proxy"]), "TMPDIR="+t.TempDir())
	start(t, proxy)

	ready := func() bool { return exec.CommandContext(t.Context(), binary, "health", "--config", file).Run() == nil }
	require.Eventually(t, ready, time.Minute, 50*time.Millisecond)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+worker+"/", strings.NewReader(`{"Document": {"S3Object": {"Bucket": "scans", "Name": "lease.pdf"}}}`))
	require.NoError(t, err)
	request.Header.Set("X-Amz-Target", "Textract.DetectDocumentText")
	request.Header.Set("Content-Type", "application/x-amz-json-1.1")
	answer, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	require.Equal(t, "success", answer.Header.Get("Ocr-Proxy-Outcome"))
}

func start(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
	})
}

func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = listener.Close() }()
	return fmt.Sprint(listener.Addr())
}

// What Prometheus and Grafana are given has to name each other, the proxy and its job.
func TestMonitoringLooksAtTheProxy(t *testing.T) {
	services := load(t, "monitoring").Services
	text, err := os.ReadFile(filepath.Join(folder, "compose/prometheus.yaml"))
	require.NoError(t, err)
	var prometheus struct {
		Rules   []string `json:"rule_files"`
		Scrapes []struct {
			Job     string `json:"job_name"`
			Targets []struct {
				Targets []string `json:"targets"`
			} `json:"static_configs"`
		} `json:"scrape_configs"`
	}
	require.NoError(t, yaml.Unmarshal(text, &prometheus))
	require.Equal(t, "proxy:9090", prometheus.Scrapes[0].Targets[0].Targets[0])
	require.Contains(t, prometheus.Scrapes[0].Job, "ocr-proxy", "the alert OcrProxyDown looks for it")
	require.True(t, slices.ContainsFunc(services["prometheus"].Volumes, func(v types.ServiceVolumeConfig) bool {
		return v.Target == "/etc/prometheus/"+prometheus.Rules[0]
	}))
	if promtool, err := exec.LookPath("promtool"); err == nil {
		dir := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(dir, "prometheus.yml"), text, 0o600))
		rules, err := os.ReadFile(filepath.Join(folder, "prometheus", prometheus.Rules[0]))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(dir, prometheus.Rules[0]), rules, 0o600))
		out, err := exec.CommandContext(t.Context(), promtool, "check", "config", filepath.Join(dir, "prometheus.yml")).CombinedOutput()
		require.NoError(t, err, string(out))
	}
	var grafana struct {
		Sources []struct {
			URL string `json:"url"`
		} `json:"datasources"`
	}
	text, err = os.ReadFile(filepath.Join(folder, "compose/grafana/datasource.yaml"))
	require.NoError(t, err)
	require.NoError(t, yaml.Unmarshal(text, &grafana))
	require.Equal(t, "http://prometheus:9090", grafana.Sources[0].URL)
}

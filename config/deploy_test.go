package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

const (
	deployed       = "../deploy/kubernetes"
	alertRules     = "../deploy/prometheus/ocr-proxy.rules.yaml"
	prometheusRule = deployed + "/components/monitoring/prometheusrule.yaml"
)

// sidecarPatch is what is looked at of the pod that the component makes. What kustomize builds of it is checked by "make deploy".
type sidecarPatch struct {
	Spec struct {
		Template struct {
			Spec struct {
				TerminationGracePeriodSeconds int `yaml:"terminationGracePeriodSeconds"`
				InitContainers                []struct {
					Env []struct{ Name, Value string } `yaml:"env"`
				} `yaml:"initContainers"`
			} `yaml:"spec"`
		} `yaml:"template"`
	} `yaml:"spec"`
}

func TestKubernetesExamplesLoadUnderTheEnvironmentOfTheSidecar(t *testing.T) {
	text, err := os.ReadFile(deployed + "/components/sidecar/pod.yaml")
	require.NoError(t, err)
	var patch sidecarPatch
	require.NoError(t, yaml.Unmarshal(text, &patch))
	pod := patch.Spec.Template.Spec
	var environ []string
	for _, e := range pod.InitContainers[0].Env {
		environ = append(environ, e.Name+"="+e.Value)
	}
	files, err := filepath.Glob(deployed + "/examples/*/config.yaml")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(filepath.Base(filepath.Dir(file)), func(t *testing.T) {
			cfg, err := Load(withSecrets(t, file), environ)
			require.NoError(t, err)
			require.Empty(t, cfg.Warnings())
			require.Greater(t, cfg.Shutdown.DrainTimeout, cfg.Retry.TotalBudget)
			require.Greater(t, time.Duration(pod.TerminationGracePeriodSeconds)*time.Second, cfg.Shutdown.DrainTimeout+10*time.Second)
		})
	}
}

// withSecrets copies a configuration so that the secrets which it names lie where it says.
func withSecrets(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	dir := t.TempDir()
	const mounted = "/run/secrets/ocr-proxy/"
	for line := range strings.Lines(string(text)) {
		if _, name, ok := strings.Cut(line, mounted); ok {
			require.NoError(t, os.WriteFile(filepath.Join(dir, strings.Trim(name, " }\r\n")), []byte("a-secret-of-this-test"), 0o600))
		}
	}
	moved := filepath.Join(dir, "config.yaml")
	require.NoError(t, os.WriteFile(moved, []byte(strings.ReplaceAll(string(text), mounted, filepath.ToSlash(dir)+"/")), 0o600))
	return moved
}

// The rules for the Prometheus Operator are those for Prometheus, under the head of another kind of object.
func TestPrometheusRuleIsMadeOfTheRules(t *testing.T) {
	text, err := os.ReadFile(alertRules)
	require.NoError(t, err)
	_, groups, found := strings.Cut(strings.ReplaceAll(string(text), "\r\n", "\n"), "\ngroups:\n")
	require.True(t, found)
	var want strings.Builder
	want.WriteString(`# Written from deploy/prometheus/ocr-proxy.rules.yaml by UPDATE_RULES=1 go test ./config -run PrometheusRule; change that file.
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: ocr-proxy
spec:
  groups:
`)
	for line := range strings.Lines(groups) {
		if line != "\n" {
			want.WriteString("  ")
		}
		want.WriteString(line)
	}
	if os.Getenv("UPDATE_RULES") != "" {
		require.NoError(t, os.WriteFile(prometheusRule, []byte(want.String()), 0o600))
	}
	have, err := os.ReadFile(prometheusRule)
	require.NoError(t, err)
	require.Equal(t, want.String(), strings.ReplaceAll(string(have), "\r\n", "\n"), "write it anew: UPDATE_RULES=1 go test ./config -run PrometheusRule")
}

func TestComposeExampleLoads(t *testing.T) {
	cfg, err := Load("../deploy/compose/config.yaml", []string{"OCR_PROXY_ADMIN_TOKEN_FILE="})
	require.NoError(t, err)
	require.Empty(t, cfg.Warnings())
	require.Greater(t, cfg.Shutdown.DrainTimeout, cfg.Retry.TotalBudget)
}

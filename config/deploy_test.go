package config

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

const sidecar = "../deploy/kubernetes/sidecar.yaml"

// manifest is what is looked at of a Kubernetes object.
type manifest struct {
	Kind string            `yaml:"kind"`
	Data map[string]string `yaml:"data"`
	Spec struct {
		Template struct {
			Spec pod `yaml:"spec"`
		} `yaml:"template"`
	} `yaml:"spec"`
}

type pod struct {
	EnableServiceLinks            *bool       `yaml:"enableServiceLinks"`
	TerminationGracePeriodSeconds int         `yaml:"terminationGracePeriodSeconds"`
	InitContainers                []container `yaml:"initContainers"`
}

type container struct {
	Args          []string  `yaml:"args"`
	RestartPolicy string    `yaml:"restartPolicy"`
	StartupProbe  yaml.Node `yaml:"startupProbe"`
	Ports         []struct {
		ContainerPort int `yaml:"containerPort"`
	} `yaml:"ports"`
	VolumeMounts []mount `yaml:"volumeMounts"`
}

type mount struct {
	MountPath string `yaml:"mountPath"`
}

func readManifests(t *testing.T) map[string]manifest {
	t.Helper()
	text, err := os.ReadFile(sidecar)
	require.NoError(t, err)
	all := map[string]manifest{}
	for documents := yaml.NewDecoder(bytes.NewReader(text)); ; {
		var m manifest
		err := documents.Decode(&m)
		if errors.Is(err, io.EOF) {
			return all
		}
		require.NoError(t, err)
		all[m.Kind] = m
	}
}

func TestKubernetesExampleIsANativeSidecarWhoseConfigurationLoads(t *testing.T) {
	text, err := os.ReadFile(sidecar)
	require.NoError(t, err)
	require.NotContains(t, string(text), "preStop:")

	manifests := readManifests(t)
	file := filepath.Join(t.TempDir(), "config.yaml")
	require.NoError(t, os.WriteFile(file, []byte(manifests["ConfigMap"].Data["config.yaml"]), 0o600))
	cfg, err := Load(file, nil)
	require.NoError(t, err)

	spec := manifests["Deployment"].Spec.Template.Spec
	require.Equal(t, new(false), spec.EnableServiceLinks)
	require.Greater(t, time.Duration(spec.TerminationGracePeriodSeconds)*time.Second, cfg.Shutdown.DrainTimeout+10*time.Second)
	require.Greater(t, cfg.Shutdown.DrainTimeout, cfg.Retry.TotalBudget)

	require.Len(t, spec.InitContainers, 1)
	proxy := spec.InitContainers[0]
	require.Equal(t, "Always", proxy.RestartPolicy)
	require.False(t, proxy.StartupProbe.IsZero(), "the worker must not start before the proxy is up")

	host, port, err := net.SplitHostPort(cfg.Admin.Listen)
	require.NoError(t, err)
	require.Equal(t, "0.0.0.0", host, "the kubelet does not come over loopback")
	require.Equal(t, port, strconv.Itoa(proxy.Ports[0].ContainerPort))

	for _, dir := range []string{cfg.DeadLetters.Dir, cfg.Body.Dir} {
		require.True(t, slices.ContainsFunc(proxy.VolumeMounts, func(m mount) bool {
			return strings.HasPrefix(dir, m.MountPath+"/")
		}), "%s lies on no volume, and the root file system is read-only", dir)
	}
	require.Contains(t, proxy.Args, "/etc/ocr-proxy/config.yaml")
}

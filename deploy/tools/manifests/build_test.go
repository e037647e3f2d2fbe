// Package manifests builds the examples of deploy/kubernetes with kustomize and checks what comes out: by the schemas of Kubernetes and of the Prometheus
// Operator, and for what has to hold of a sidecar. "make deploy" installs the tools and says where they are.
package manifests

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
	sigsyaml "sigs.k8s.io/yaml"
)

const folder = "../../kubernetes"

// Kubernetes versions to validate against: the oldest that runs native sidecars without a feature gate, and the newest that kubectl-validate knows.
func kubernetesVersions() []string { return []string{"1.29", "1.30"} }

// tool is a program, or a folder, that an environment variable names.
func tool(t *testing.T, variable string) string {
	t.Helper()
	path := os.Getenv(variable)
	if path == "" {
		t.Skip(variable + " is not set: make deploy does")
	}
	return path
}

// kustomize builds a folder.
func kustomize(t *testing.T, dir string) []byte {
	t.Helper()
	var complaint bytes.Buffer
	build := exec.CommandContext(t.Context(), tool(t, "KUSTOMIZE"), "build", dir)
	build.Stderr = &complaint
	out, err := build.Output()
	require.NoError(t, err, complaint.String())
	require.Empty(t, complaint.String(), "kustomize warns")
	return out
}

// validate has the schemas of Kubernetes and of the Prometheus Operator look at manifests. It returns what they complain of.
func validate(t *testing.T, text []byte) error {
	t.Helper()
	program, crds := tool(t, "KUBECTL_VALIDATE"), t.TempDir()
	for _, name := range []string{"podmonitors", "prometheusrules"} {
		file := "monitoring.coreos.com_" + name + ".yaml"
		definition, err := os.ReadFile(filepath.Join(tool(t, "MONITORING_CRDS"), file))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(crds, file), definition, 0o600))
	}
	file := filepath.Join(t.TempDir(), "manifests.yaml")
	require.NoError(t, os.WriteFile(file, text, 0o600))
	for _, version := range kubernetesVersions() {
		if out, err := exec.CommandContext(t.Context(), program, "--version", version, "--local-crds", crds, file).CombinedOutput(); err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
	}
	return nil
}

// objects is what is looked at of a build.
type objects struct {
	workload string // kind
	meta     string // its name
	replicas int32  // pods at one time
	pod      corev1.PodTemplateSpec

	deployment *appsv1.Deployment
	claims     []corev1.PersistentVolumeClaim // of a StatefulSet, by replica
	configs    map[string]corev1.ConfigMap
	policies   []networkingv1.NetworkPolicy
	others     map[string]map[string]any // kinds without a Go type here
}

// read decodes a build strictly: a field that Kubernetes does not know is a mistake.
func read(t *testing.T, text []byte) objects {
	t.Helper()
	o := objects{configs: map[string]corev1.ConfigMap{}, others: map[string]map[string]any{}}
	for documents := yaml.NewDocumentDecoder(io.NopCloser(bytes.NewReader(text))); ; {
		document := make([]byte, 1<<20)
		n, err := documents.Read(document)
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		document = document[:n]
		var head struct {
			Kind string `json:"kind"`
		}
		require.NoError(t, sigsyaml.Unmarshal(document, &head))
		decode := func(into any) { require.NoError(t, sigsyaml.UnmarshalStrict(document, into), head.Kind) }
		switch head.Kind {
		case "Deployment":
			o.deployment = new(appsv1.Deployment)
			decode(o.deployment)
			o.workload, o.meta, o.replicas, o.pod = head.Kind, o.deployment.Name, one(o.deployment.Spec.Replicas), o.deployment.Spec.Template
		case "StatefulSet":
			var s appsv1.StatefulSet
			decode(&s)
			o.workload, o.meta, o.replicas, o.pod, o.claims = head.Kind, s.Name, one(s.Spec.Replicas), s.Spec.Template, s.Spec.VolumeClaimTemplates
		case "Job":
			var j batchv1.Job
			decode(&j)
			o.workload, o.meta, o.replicas, o.pod = head.Kind, j.Name, one(j.Spec.Parallelism), j.Spec.Template
		case "ConfigMap":
			var c corev1.ConfigMap
			decode(&c)
			o.configs[c.Name] = c
		case "NetworkPolicy":
			var p networkingv1.NetworkPolicy
			decode(&p)
			o.policies = append(o.policies, p)
		case "PersistentVolumeClaim":
			decode(new(corev1.PersistentVolumeClaim))
			fallthrough
		default:
			var other map[string]any
			decode(&other)
			o.others[head.Kind] = other
		}
	}
	require.NotEmpty(t, o.workload)
	return o
}

func one(count *int32) int32 {
	if count == nil {
		return 1
	}
	return *count
}

func examples(t *testing.T) []string {
	t.Helper()
	found, err := filepath.Glob(folder + "/examples/*/kustomization.yaml")
	require.NoError(t, err)
	require.NotEmpty(t, found)
	for i, file := range found {
		found[i] = filepath.Base(filepath.Dir(file))
	}
	return found
}

// unsealed is a configuration whose secrets lie in a folder of this test, as they would in the pod.
func unsealed(t *testing.T, config string) string {
	t.Helper()
	const mounted = "/run/secrets/ocr-proxy/"
	dir := t.TempDir()
	for line := range strings.Lines(config) {
		if _, name, ok := strings.Cut(line, mounted); ok {
			require.NoError(t, os.WriteFile(filepath.Join(dir, strings.Trim(name, " \"'}\n")), []byte("a-secret-of-this-test"), 0o600))
		}
	}
	return strings.ReplaceAll(config, mounted, dir+"/")
}

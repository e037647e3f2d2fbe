package manifests

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	sigsyaml "sigs.k8s.io/yaml"
)

// A workload with everything of its own that the component could get in the way of.
const own = `
metadata: {name: own}
spec:
  %s
  template:
    metadata:
      labels: {app: own}
    spec:
      %s
      securityContext: {runAsUser: 1000, supplementalGroups: [7]}
      initContainers:
        - {name: fetch, image: fetch:1}
      containers:
        - {name: worker, image: worker:1, volumeMounts: [{name: data, mountPath: /data}]}
        - {name: second, image: second:1}
      volumes:
        - {name: data, emptyDir: {}}
`

func TestComponentAddsToWhatIsThere(t *testing.T) {
	const selector = "selector: {matchLabels: {app: own}}"
	for _, c := range []struct{ kind, version, spec, pod, letters string }{
		{"Deployment", "apps/v1", selector, "", "letters-claim"},
		{"Deployment", "apps/v1", "replicas: 5\n  " + selector, "", "letters-ephemeral"},
		{"Deployment", "apps/v1", "strategy: {type: RollingUpdate, rollingUpdate: {maxSurge: 1}}\n  " + selector, "", "letters-claim"},
		{"StatefulSet", "apps/v1", "serviceName: own\n  replicas: 5\n  " + selector, "", "letters-per-replica"},
		{"StatefulSet", "apps/v1", "serviceName: own\n  " + selector, "", "letters-ephemeral"},
		{"Job", "batch/v1", "parallelism: 1", "restartPolicy: Never", "letters-claim"},
		{"Job", "batch/v1", "parallelism: 9", "restartPolicy: OnFailure", "letters-ephemeral"},
	} {
		t.Run(c.kind+" with "+c.letters, func(t *testing.T) {
			dir := overlay(t, fmt.Sprintf("apiVersion: %s\nkind: %s", c.version, c.kind)+fmt.Sprintf(own, c.spec, c.pod), c.letters)
			text := kustomize(t, dir)
			require.NoError(t, validate(t, text))
			o := read(t, text)
			require.Equal(t, c.kind, o.workload)
			require.Equal(t, "own", o.meta)
			requireSidecar(t, o)
			requireLetters(t, o)
			require.Equal(t, "own", o.pod.Labels["app"])
			require.Equal(t, "fetch", o.pod.Spec.InitContainers[1].Name)
			require.Len(t, o.pod.Spec.Containers, 2)
			require.Equal(t, int64(1000), *o.pod.Spec.SecurityContext.RunAsUser, "who the worker is, is its own affair")
			require.Equal(t, []int64{7}, o.pod.Spec.SecurityContext.SupplementalGroups)
			require.Equal(t, "data", o.pod.Spec.Containers[0].VolumeMounts[0].Name)
		})
	}
}

// overlay writes a kustomization beside a copy of the components.
func overlay(t *testing.T, workload, letters string) string {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(filepath.Join(dir, "components"), os.DirFS(filepath.Join(folder, "components"))))
	work := filepath.Join(dir, "overlay")
	require.NoError(t, os.Mkdir(work, 0o700))
	text, err := sigsyaml.Marshal(map[string]any{
		"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization",
		"resources":  []string{"own.yaml"},
		"components": []string{"../components/sidecar", "../components/" + letters},
		"configMapGenerator": []any{map[string]any{
			"name": "ocr-proxy", "literals": []string{"config.yaml=dead_letters: {webhook: {url: https://a.example}}"},
			"options": map[string]any{"disableNameSuffixHash": true},
		}},
	})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(work, "kustomization.yaml"), text, 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(work, "own.yaml"), []byte(workload), 0o600))
	return work
}

// The schemas have to be in use: kubectl-validate passes over kinds that it knows no schema of.
func TestMistakesAreInvalid(t *testing.T) {
	for name, text := range map[string]string{
		"a field that does not exist": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndatta: {}\n",
		"a monitor":                   "apiVersion: monitoring.coreos.com/v1\nkind: PodMonitor\nmetadata: {name: a}\nspec: {selector: {}, podMetricsEndpoints: [{interval: soon}]}\n",
		"a rule":                      "apiVersion: monitoring.coreos.com/v1\nkind: PrometheusRule\nmetadata: {name: a}\nspec: {groups: [{rules: []}]}\n",
		"a kind that nobody knows":    "apiVersion: monitoring.coreos.com/v1\nkind: Monitor\nmetadata: {name: a}\n",
	} {
		require.Error(t, validate(t, []byte(text)), name)
	}
}

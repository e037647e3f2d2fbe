package manifests

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	sigsyaml "sigs.k8s.io/yaml"

	"github.com/ocr-proxy/ocr-proxy/deploy/tools/program"
)

func TestExamplesAreValidAndSound(t *testing.T) {
	binary := program.Build(t)
	kinds := map[string]bool{}
	for _, example := range examples(t) {
		t.Run(example, func(t *testing.T) {
			text := kustomize(t, filepath.Join(folder, "examples", example))
			require.NoError(t, validate(t, text))
			o := read(t, text)
			kinds[o.workload] = true
			requireSidecar(t, o)
			requireConfiguration(t, o, binary)
			requireLetters(t, o)
			requireMonitoring(t, o)
			require.Len(t, o.policies, 1)
			requirePolicy(t, o)
		})
	}
	require.Len(t, kinds, 3, "a Deployment, a StatefulSet and a Job")
}

// requireSidecar holds a pod to what makes the proxy a native sidecar that nothing can be lost from.
func requireSidecar(t *testing.T, o objects) {
	t.Helper()
	spec := o.pod.Spec
	require.Equal(t, "ocr-proxy", spec.InitContainers[0].Name, "other init containers may need the proxy, so it is the first")
	proxy := spec.InitContainers[0]
	require.NotNil(t, proxy.RestartPolicy, "without it the pod never starts: the proxy does not end")
	require.Equal(t, corev1.ContainerRestartPolicyAlways, *proxy.RestartPolicy)
	require.Nil(t, proxy.Lifecycle, "a hook only takes time from the drain: a native sidecar gets SIGTERM when the worker has ended")
	require.Equal(t, []string{"serve", "--config", "/etc/ocr-proxy/config.yaml"}, proxy.Args)
	require.NotNil(t, spec.EnableServiceLinks)
	require.False(t, *spec.EnableServiceLinks, "variables of a Service can read like settings")

	for name, c := range map[string]struct {
		probe *corev1.Probe
		path  string
	}{"startup": {proxy.StartupProbe, "/readyz"}, "readiness": {proxy.ReadinessProbe, "/readyz"}, "liveness": {proxy.LivenessProbe, "/healthz"}} {
		require.NotNil(t, c.probe, name)
		require.Equal(t, c.path, c.probe.HTTPGet.Path, name)
		require.True(t, slices.ContainsFunc(proxy.Ports, func(p corev1.ContainerPort) bool { return p.Name == c.probe.HTTPGet.Port.StrVal }), name)
	}

	s := proxy.SecurityContext
	require.True(t, *s.RunAsNonRoot)
	require.Equal(t, int64(65532), *s.RunAsUser, "the user of the image")
	require.True(t, *s.ReadOnlyRootFilesystem)
	require.False(t, *s.AllowPrivilegeEscalation)
	require.Equal(t, []corev1.Capability{"ALL"}, s.Capabilities.Drop)
	require.Equal(t, corev1.SeccompProfileTypeRuntimeDefault, s.SeccompProfile.Type)
	require.Equal(t, *s.RunAsUser, *spec.SecurityContext.FSGroup, "else it cannot write to a claim")
	require.False(t, proxy.Resources.Limits.Memory().IsZero())
	require.False(t, proxy.Resources.Requests.Memory().IsZero())
	require.False(t, proxy.Resources.Requests.Cpu().IsZero())
}

// effective is what is looked at of the output of "ocr-proxy check".
type effective struct {
	Admin    struct{ Listen string }
	Shutdown struct {
		DrainTimeout string `json:"drain_timeout"`
	}
	Retry struct {
		TotalBudget string `json:"total_budget"`
	}
	Body        struct{ Dir string }
	DeadLetters struct{ Dir string } `json:"dead_letters"`
	Providers   []struct{ Listen string }
}

// requireConfiguration checks the mounted file under the environment of the container, and that file, ports and folders fit the pod.
func requireConfiguration(t *testing.T, o objects, binary string) {
	t.Helper()
	config, ok := o.configs["ocr-proxy"]
	require.True(t, ok, "the name of the ConfigMap has to stay the same for a change to reach running pods")
	proxy := o.pod.Spec.InitContainers[0]
	var environ []string
	for _, e := range proxy.Env {
		environ = append(environ, e.Name+"="+e.Value)
	}
	var e effective
	require.NoError(t, sigsyaml.Unmarshal([]byte(program.Check(t, binary, unsealed(t, config.Data["config.yaml"]), environ)), &e))

	drain, budget := duration(t, e.Shutdown.DrainTimeout), duration(t, e.Retry.TotalBudget)
	require.Greater(t, drain, budget, "a request could not use its time")
	require.Greater(t, time.Duration(*o.pod.Spec.TerminationGracePeriodSeconds)*time.Second, drain+10*time.Second, "the kubelet would kill the proxy while it drains")
	require.Equal(t, "0.0.0.0:9090", e.Admin.Listen, "the kubelet does not come over loopback")
	require.Equal(t, int32(9090), proxy.Ports[0].ContainerPort)
	for _, p := range e.Providers {
		require.True(t, strings.HasPrefix(p.Listen, "127.0.0.1:"), "%s is open to other pods", p.Listen)
	}
	mounted := func(dir string) string {
		for _, m := range proxy.VolumeMounts {
			if strings.HasPrefix(dir, m.MountPath+"/") && !m.ReadOnly {
				return m.Name
			}
		}
		return ""
	}
	require.Equal(t, "ocr-proxy-letters", mounted(e.DeadLetters.Dir), "the root file system is read-only")
	require.Equal(t, "ocr-proxy-spool", mounted(e.Body.Dir), "the root file system is read-only")
}

func duration(t *testing.T, text string) time.Duration {
	t.Helper()
	d, err := time.ParseDuration(text)
	require.NoError(t, err)
	return d
}

// requireLetters makes sure that every volume is there, that one folder has one proxy, and that letters which go with the pod are told of.
func requireLetters(t *testing.T, o objects) {
	t.Helper()
	volumes := map[string]corev1.VolumeSource{}
	for _, v := range o.pod.Spec.Volumes {
		volumes[v.Name] = v.VolumeSource
	}
	for _, claim := range o.claims {
		_, twice := volumes[claim.Name]
		require.False(t, twice, claim.Name)
		volumes[claim.Name] = corev1.VolumeSource{}
	}
	for _, m := range o.pod.Spec.InitContainers[0].VolumeMounts {
		require.Contains(t, volumes, m.Name)
	}
	letters := volumes["ocr-proxy-letters"]
	if letters.PersistentVolumeClaim != nil {
		require.Contains(t, o.others, "PersistentVolumeClaim")
		require.LessOrEqual(t, o.replicas, int32(1), "one claim, several proxies")
		if o.deployment != nil {
			require.Equal(t, "Recreate", string(o.deployment.Spec.Strategy.Type), "the new pod would wait for the volume of the old one")
		}
	}
	if letters.EmptyDir != nil {
		require.Contains(t, o.configs["ocr-proxy"].Data["config.yaml"], "webhook:", "letters that go with the pod, and nobody is told")
	}
}

func requireMonitoring(t *testing.T, o objects) {
	t.Helper()
	text, err := os.ReadFile("../../prometheus/ocr-proxy.rules.yaml")
	require.NoError(t, err)
	var rules map[string]any
	require.NoError(t, sigsyaml.Unmarshal(text, &rules))
	require.Equal(t, rules, o.others["PrometheusRule"]["spec"], "the rules are not those of deploy/prometheus")

	spec := o.others["PodMonitor"]["spec"].(map[string]any)
	endpoint := spec["podMetricsEndpoints"].([]any)[0].(map[string]any)
	require.Equal(t, "/metrics", endpoint["path"])
	require.Equal(t, o.pod.Spec.InitContainers[0].Ports[0].Name, endpoint["port"])
	for key, value := range spec["selector"].(map[string]any)["matchLabels"].(map[string]any) {
		require.Equal(t, value, o.pod.Labels[key], "the monitor does not select the pod")
	}
	name := o.others["PodMonitor"]["metadata"].(map[string]any)["name"]
	require.Contains(t, name, "ocr-proxy", "the alert OcrProxyDown looks for it in the job's name")
}

func requirePolicy(t *testing.T, o objects) {
	t.Helper()
	spec := o.policies[0].Spec
	for key, value := range spec.PodSelector.MatchLabels {
		require.Equal(t, value, o.pod.Labels[key], "the policy does not select the pod")
	}
	require.NotEmpty(t, spec.PodSelector.MatchLabels, "the policy is about every pod of the namespace")
	require.Len(t, spec.Ingress, 1)
	require.NotEmpty(t, spec.Ingress[0].From, "everybody may come in")
	require.Len(t, spec.Ingress[0].Ports, 1, "only the admin listener")
	require.Equal(t, o.pod.Spec.InitContainers[0].Ports[0].ContainerPort, spec.Ingress[0].Ports[0].Port.IntVal)
}

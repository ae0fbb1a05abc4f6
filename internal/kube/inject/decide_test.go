package inject

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestDecide(t *testing.T) {
	const selectors = `
policy: POLICY
templates: {sidecar: "{}"}
neverInjectSelector: [{matchLabels: {never: "yes"}}, {}]
alwaysInjectSelector: [{matchExpressions: [{key: always, operator: Exists}]}]
`
	config := func(policy string) *Config {
		c, err := ParseConfig([]byte(strings.Replace(selectors, "POLICY", policy, 1)), nil)
		if err != nil || len(c.Faults) > 0 {
			t.Fatal(err, c.Faults)
		}
		return c
	}
	for _, c := range []struct {
		name, policy, namespace string
		labels, annotations     map[string]string
		host                    bool
		want                    bool
	}{
		{name: "no label or annotation", policy: "enabled", want: true},
		{name: "no label or annotation, policy disabled", policy: "disabled"},
		{name: "label", policy: "disabled", labels: map[string]string{"sidecar.istio.io/inject": "true"}, want: true},
		{name: "label against", policy: "enabled", labels: map[string]string{"sidecar.istio.io/inject": "false"}},
		{name: "annotation", policy: "disabled", annotations: map[string]string{"sidecar.istio.io/inject": "true"}, want: true},
		{
			name: "the label wins over the annotation", policy: "enabled",
			labels: map[string]string{"sidecar.istio.io/inject": "false"}, annotations: map[string]string{"sidecar.istio.io/inject": "true"},
		},
		{name: "an invalid value is ignored", policy: "enabled", labels: map[string]string{"sidecar.istio.io/inject": "yes"}, want: true},
		{name: "never", policy: "enabled", labels: map[string]string{"never": "yes", "always": "x"}},
		{name: "matches neverInjectSelector, but requests injection by label", policy: "enabled", labels: map[string]string{"never": "yes", "sidecar.istio.io/inject": "true"}, want: true},
		{name: "always", policy: "disabled", labels: map[string]string{"always": "x"}, want: true},
		{name: "the node's network", policy: "enabled", labels: map[string]string{"sidecar.istio.io/inject": "true"}, host: true},
		{name: "a system namespace", policy: "enabled", namespace: "kube-system", labels: map[string]string{"sidecar.istio.io/inject": "true"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			pod := &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Labels: c.labels, Annotations: c.annotations},
				Spec:       corev1.PodSpec{HostNetwork: c.host},
			}
			d := config(c.policy).Decide(pod, c.namespace)
			if d.Inject != c.want || d.Reason == "" {
				t.Errorf("%+v", d)
			}
			if nonsense := c.labels["sidecar.istio.io/inject"] == "yes"; nonsense != (d.Warning != "") {
				t.Errorf("warning %q", d.Warning)
			}
		})
	}
}

// TestFaultyConfig: an invalid part of the configuration leaves the rest in use.
func TestFaultyConfig(t *testing.T) {
	c, err := ParseConfig([]byte(`
policy: maybe
templates: {good: "{}", bad: "{{ nope }}"}
neverInjectSelector: [{matchExpressions: [{key: a, operator: Sometimes}]}, {matchLabels: {a: b}}]
`), nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Faults) != 3 || c.Policy != Disabled || len(c.Never) != 1 {
		t.Errorf("faults %v, policy %s, selectors %v", c.Faults, c.Policy, c.Never)
	}
	if _, err := c.lookupTemplate("good"); err != nil {
		t.Error(err)
	}
	if _, err := c.lookupTemplate("bad"); err == nil || !strings.Contains(err.Error(), "nope") {
		t.Error(err)
	}
	for _, text := range []string{"[]", "a: [", "templates: 1"} {
		if _, err := ParseConfig([]byte(text), nil); err == nil {
			t.Errorf("%q was accepted, want an error", text)
		}
	}
}

func TestPathEnv(t *testing.T) {
	for path, want := range map[string]map[string]string{
		"/inject":                                  {},
		"/inject/":                                 {},
		"/inject/cluster/c1/net/n1":                {"ISTIO_META_CLUSTER_ID": "c1", "ISTIO_META_NETWORK": "n1"},
		"/inject/cluster/a--slash--b/":             {"ISTIO_META_CLUSTER_ID": "a/b"},
		"/inject/foo/bar/odd":                      {"FOO": "bar"},
		"/inject/:ENV:cluster=c1:ENV:X=:ENV:Y=a=b": {"ISTIO_META_CLUSTER_ID": "c1", "X": "", "Y": "a=b"},
		"/inject/:ENV:net=n1:ENV:=x:ENV:a":         {"ISTIO_META_NETWORK": "n1"},
	} {
		got := ParsePathEnv(path)
		if len(got) != len(want) {
			t.Errorf("%s: %v, want %v", path, got, want)
		}
		for k, v := range want {
			if got[k] != v {
				t.Errorf("%s: %s is %q, want %q", path, k, got[k], v)
			}
		}
	}
}

func TestUsersOf(t *testing.T) {
	const uids, groups = "openshift.io/sa.scc.uid-range", "openshift.io/sa.scc.supplemental-groups"
	for _, c := range []struct {
		annotations map[string]string
		want        Users
	}{
		{nil, Users{}},
		{map[string]string{uids: "1000620000/10000"}, Users{UID: 1000629999, GID: 1000629999}},
		{map[string]string{uids: "1000-2000", groups: "5000/100,7000/1"}, Users{UID: 2000, GID: 5099}},
		{map[string]string{uids: "nonsense"}, Users{}},
		{map[string]string{uids: "1/0"}, Users{}},
	} {
		if got := NamespaceUsers(c.annotations); got != c.want {
			t.Errorf("%v: %+v, want %+v", c.annotations, got, c.want)
		}
	}
}

func TestNativeSidecars(t *testing.T) {
	for version, want := range map[string]bool{
		"v1.33.0": true, "v1.32.9": false, "v1.35.4-eks-1": true, "1.33+": true, "v2.0.0": true, "": false, "x": false, "v1": false,
	} {
		if got := SupportsNativeSidecars(version); got != want {
			t.Errorf("%q: %v", version, got)
		}
	}
}

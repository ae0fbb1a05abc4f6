package namespaces_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	meshconfig "istio.io/api/mesh/v1alpha1"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/meshpilot/meshpilot/internal/ingest/registry/namespaces"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// seen accumulates the output of a Filter: versions of objects by "Kind/namespace/name".
type seen map[string]string

func (s seen) apply(t interface{ Fatalf(string, ...any) }, out mesh.Batch) {
	for _, e := range out {
		switch {
		case e.Config == nil:
		case e.Op == mesh.Delete:
			delete(s, e.Config.Key.String())
		case s[e.Config.Key.String()] == e.Config.ResourceVersion && e.Config.ResourceVersion != "":
			t.Fatalf("%s is emitted twice", e.Config.Key)
		default:
			s[e.Config.Key.String()] = e.Config.ResourceVersion
		}
	}
}

func object(kind api.Kind, namespace, name, version string) mesh.Event {
	return mesh.Event{Source: "cluster", Config: &config.Config{Meta: config.Meta{
		Key: config.Key{Kind: kind, Namespace: namespace, Name: name}, ResourceVersion: version,
	}}}
}

func namespace(name, team string) mesh.Event {
	e := object(api.Namespace, "", name, "")
	if team != "" {
		e.Config.Labels = map[string]string{"team": team}
	}
	return e
}

func gone(e mesh.Event) mesh.Event {
	return mesh.Event{Op: mesh.Delete, Source: e.Source, Config: &config.Config{Meta: config.Meta{Key: e.Config.Key}}}
}

// settings have one selector for each team.
func settings(teams ...string) mesh.Event {
	m := new(meshconfig.MeshConfig)
	for _, team := range teams {
		m.DiscoverySelectors = append(m.DiscoverySelectors, &meshconfig.LabelSelector{MatchLabels: map[string]string{"team": team}})
	}
	return mesh.Event{Source: "settings", Settings: &mesh.Settings{Mesh: m}}
}

// TestSelection makes one change after the other, and compares the objects that pass.
func TestSelection(t *testing.T) {
	f, got := namespaces.New(namespaces.Options{Sources: []string{"cluster"}}), seen{}
	step := func(name string, want []string, events ...mesh.Event) {
		t.Helper()
		got.apply(t, f.Convert(events))
		var have []string
		for key := range got {
			if !strings.HasPrefix(key, string(api.Namespace)) {
				have = append(have, key)
			}
		}
		wanted := map[string]bool{}
		for _, w := range want {
			wanted[w] = true
		}
		for _, h := range have {
			if !wanted[h] {
				t.Errorf("%s: %s is seen", name, h)
			}
			delete(wanted, h)
		}
		for w := range wanted {
			t.Errorf("%s: %s is not seen", name, w)
		}
	}
	const a, b, rule, secret = "Service/a/s", "Service/b/s", "VirtualService/b/v", "Secret/b/c"
	step("no selectors", []string{a, b, rule, secret}, object(api.Service, "a", "s", "1"), object(api.Service, "b", "s", "1"),
		object(api.VirtualService, "b", "v", "1"), object(api.Secret, "b", "c", "1"), namespace("a", "blue"), namespace("b", "red"))
	step("blue", []string{a}, settings("blue"))
	step("unseen objects change and go", []string{a}, object(api.Service, "b", "s", "2"), gone(object(api.Secret, "b", "c", "")))
	step("blue or red", []string{a, b, rule}, settings("blue", "red"))
	if got[b] != "2" {
		t.Errorf("version %s of %s passed, which is not the newest", got[b], b)
	}
	step("red", []string{b, rule}, settings("red"))
	step("a is relabelled", []string{a, b, rule}, namespace("a", "red"))
	step("b is relabelled", []string{a}, namespace("b", ""))
	step("a's Namespace is deleted", nil, gone(namespace("a", "")))
	step("no selectors again", []string{a, b, rule}, settings())
	step("none but green", nil, settings("green"))
	step("an object before its Namespace", nil, object(api.Pod, "c", "p", "1"))
	step("the Namespace", []string{"Pod/c/p"}, namespace("c", "green"))
	step("something without a namespace", []string{"Pod/c/p", "Node//n"}, object(api.Node, "", "n", "1"))
}

// TestExpressions: selectors have expressions, an empty one chooses all namespaces that there are.
func TestExpressions(t *testing.T) {
	expression := func(operator string, values ...string) *meshconfig.LabelSelector {
		return &meshconfig.LabelSelector{MatchExpressions: []*meshconfig.LabelSelectorRequirement{{Key: "team", Operator: operator, Values: values}}}
	}
	for _, c := range []struct {
		name     string
		selector *meshconfig.LabelSelector
		want     string
	}{
		{"In", expression("In", "blue", "green"), "blue"},
		{"NotIn", expression("NotIn", "blue"), "none red"},
		{"Exists", expression("Exists"), "blue red"},
		{"DoesNotExist", expression("DoesNotExist"), "none"},
		{"empty", &meshconfig.LabelSelector{}, "blue none red"},
	} {
		f, got := namespaces.New(namespaces.Options{}), seen{}
		m := &meshconfig.MeshConfig{DiscoverySelectors: []*meshconfig.LabelSelector{c.selector}}
		got.apply(t, f.Convert(mesh.Batch{
			{Settings: &mesh.Settings{Mesh: m}},
			namespace("blue", "blue"), namespace("red", "red"), namespace("none", ""),
			object(api.Pod, "blue", "p", "1"), object(api.Pod, "red", "p", "1"), object(api.Pod, "none", "p", "1"), object(api.Pod, "unknown", "p", "1"),
		}))
		var in []string
		for _, ns := range []string{"blue", "none", "red", "unknown"} {
			if got["Pod/"+ns+"/p"] != "" {
				in = append(in, ns)
			}
		}
		if have := strings.Join(in, " "); have != c.want {
			t.Errorf("%s: %q, want %q", c.name, have, c.want)
		}
	}
}

// TestWrongSelector: an invalid selector is reported, and the previous selection stays.
func TestWrongSelector(t *testing.T) {
	f, got := namespaces.New(namespaces.Options{}), seen{}
	got.apply(t, f.Convert(mesh.Batch{settings("blue"), namespace("a", "blue"), namespace("b", "red"), object(api.Pod, "a", "p", "1"), object(api.Pod, "b", "p", "1")}))
	before := maps.Clone(got)
	bad := settings("red")
	bad.Settings.Mesh.DiscoverySelectors = append(bad.Settings.Mesh.DiscoverySelectors, &meshconfig.LabelSelector{
		MatchExpressions: []*meshconfig.LabelSelectorRequirement{{Key: "team", Operator: "Like", Values: []string{"x"}}},
	})
	out := f.Convert(mesh.Batch{bad})
	got.apply(t, out)
	if diff := cmp.Diff(before, got); diff != "" {
		t.Errorf("-before +after:\n%s", diff)
	}
	if len(out) != 2 || out[1].Problems == nil || len(out[1].Problems.List) != 1 || out[1].Problems.List[0].Field != "discoverySelectors[1]" {
		t.Fatalf("the selector is not named: %+v", out)
	}
	if out := f.Convert(mesh.Batch{bad}); len(out) != 1 {
		t.Errorf("it is named again: %+v", out)
	}
	mended := f.Convert(mesh.Batch{settings("red")})
	got.apply(t, mended)
	if len(mended) < 2 || mended[1].Problems == nil || len(mended[1].Problems.List) != 0 || got["Pod/b/p"] == "" || got["Pod/a/p"] != "" {
		t.Errorf("the problem is not resolved: %+v, seen %v", mended, got)
	}
}

// TestPodIsCreatedAgain: a Pod that was held back is unchanged when it passes.
func TestPodIsCreatedAgain(t *testing.T) {
	f := namespaces.New(namespaces.Options{Sources: []string{"cluster"}})
	pod := object(api.Pod, "a", "p", "1")
	always := corev1.ContainerRestartPolicyAlways
	pod.Config.Hash, pod.Config.Labels = 7, map[string]string{"app": "web"}
	pod.Config.Spec = &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "a", UID: "u", Labels: pod.Config.Labels, OwnerReferences: []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "r"}}},
		Spec: corev1.PodSpec{NodeName: "n", InitContainers: []corev1.Container{{RestartPolicy: &always}},
			Containers: []corev1.Container{{Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 80}}}}},
		Status: corev1.PodStatus{PodIP: "192.0.2.1", PodIPs: []corev1.PodIP{{IP: "192.0.2.1"}, {IP: "2001:db8::1"}},
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}},
	}
	came := 0
	for _, batch := range []mesh.Batch{{settings("blue"), pod}, {settings()}, {settings("blue")}, {namespace("a", "blue")}} {
		for _, e := range f.Convert(batch) {
			if e.Config == nil || e.Config.Kind != api.Pod || e.Op == mesh.Delete {
				continue
			}
			came++
			if diff := cmp.Diff(pod, e); diff != "" {
				t.Errorf("-before +after:\n%s", diff)
			}
		}
	}
	if came != 2 {
		t.Errorf("the Pod passed %d times, want 2", came)
	}
}

// TestFilesWithoutNamespaces: without any Namespace object no selection is possible, and all
// objects pass.
func TestFilesWithoutNamespaces(t *testing.T) {
	f, got := namespaces.New(namespaces.Options{}), seen{}
	for i, step := range []struct {
		batch mesh.Batch
		want  bool
	}{
		{mesh.Batch{settings("blue"), object(api.Service, "a", "s", "1")}, true},
		{mesh.Batch{namespace("b", "blue")}, false},
		{mesh.Batch{namespace("a", "blue")}, true},
		{mesh.Batch{gone(namespace("a", ""))}, false},
		{mesh.Batch{gone(namespace("b", ""))}, true},
	} {
		got.apply(t, f.Convert(step.batch))
		if have := got["Service/a/s"] != ""; have != step.want {
			t.Errorf("step %d: seen %t, want %t", i, have, step.want)
		}
	}
}

// TestOtherSources: objects that other sources have are no matter of the cluster's namespaces.
func TestOtherSources(t *testing.T) {
	f := namespaces.New(namespaces.Options{Sources: []string{"cluster"}})
	elsewhere := object(api.VirtualService, "b", "v", "1")
	elsewhere.Source = "file"
	theirs := namespace("b", "blue")
	theirs.Source = "file"
	batch := mesh.Batch{settings("blue"), elsewhere, theirs, object(api.VirtualService, "b", "w", "1"), gone(elsewhere)}
	out := f.Convert(batch)
	if len(out) != 4 || out[1].Config != elsewhere.Config || out[3].Op != mesh.Delete {
		t.Errorf("got %d events: %+v", len(out), out)
	}
}

// TestHistory: after any sequence of events exactly the objects of the selected namespaces have
// passed.
func TestHistory(t *testing.T) {
	teams := []string{"", "blue", "red"}
	choices := [][]string{nil, {"blue"}, {"red"}, {"blue", "red"}, {"green"}}
	rapid.Check(t, func(t *rapid.T) {
		files := rapid.Bool().Draw(t, "files")
		options := namespaces.Options{Sources: []string{"cluster"}}
		if files {
			options.Sources = nil
		}
		f, got := namespaces.New(options), seen{}
		objects, labels, selectors, version := map[string]string{}, map[string]string{}, []string(nil), 0
		for range rapid.IntRange(1, 30).Draw(t, "batches") {
			var batch mesh.Batch
			for range rapid.IntRange(1, 4).Draw(t, "events") {
				ns := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "namespace")
				version++
				switch rapid.IntRange(0, 5).Draw(t, "what") {
				case 0, 1:
					e := object(api.Pod, ns, rapid.SampledFrom([]string{"x", "y"}).Draw(t, "name"), fmt.Sprint(version))
					objects[e.Config.Key.String()] = e.Config.ResourceVersion
					batch = append(batch, e)
				case 2:
					e := object(api.Pod, ns, rapid.SampledFrom([]string{"x", "y"}).Draw(t, "name"), "")
					delete(objects, e.Config.Key.String())
					batch = append(batch, gone(e))
				case 3:
					labels[ns] = rapid.SampledFrom(teams).Draw(t, "team")
					batch = append(batch, namespace(ns, labels[ns]))
				case 4:
					delete(labels, ns)
					batch = append(batch, gone(namespace(ns, "")))
				default:
					selectors = rapid.SampledFrom(choices).Draw(t, "selectors")
					batch = append(batch, settings(selectors...))
				}
			}
			got.apply(t, f.Convert(batch))
		}
		want := seen{}
		for key, v := range objects {
			team, there := labels[strings.Split(key, "/")[1]]
			chosen := len(selectors) == 0 || files && len(labels) == 0
			for _, s := range selectors {
				chosen = chosen || there && s == team
			}
			if chosen {
				want[key] = v
			}
		}
		have := seen{}
		for key, v := range got {
			if strings.HasPrefix(key, "Pod/") {
				have[key] = v
			}
		}
		if diff := cmp.Diff(want, have); diff != "" {
			t.Fatalf("-want +got:\n%s", diff)
		}
	})
}

package bookinfo_test

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	networking "istio.io/api/networking/v1alpha3"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"sigs.k8s.io/yaml"

	"github.com/meshpilot/meshpilot/samples/bookinfo"
)

// documents reads all YAML documents of a directory, by kind.
func documents(t *testing.T, dir fs.FS) map[string][][]byte {
	t.Helper()
	names, err := fs.Glob(dir, "*.yaml")
	if err != nil || len(names) == 0 {
		t.Fatalf("found files %v (%v)", names, err)
	}
	byKind := map[string][][]byte{}
	for _, name := range names {
		text, err := fs.ReadFile(dir, name)
		if err != nil {
			t.Fatal(err)
		}
		for _, doc := range bytes.Split(text, []byte("\n---\n")) {
			var meta struct{ Kind string }
			if err := yaml.Unmarshal(doc, &meta); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			byKind[meta.Kind] = append(byKind[meta.Kind], doc)
		}
	}
	return byKind
}

func parse[T any](t *testing.T, docs [][]byte) []*T {
	t.Helper()
	var all []*T
	for _, doc := range docs {
		v := new(T)
		if err := yaml.UnmarshalStrict(doc, v); err != nil {
			t.Fatalf("%v in:\n%s", err, doc)
		}
		all = append(all, v)
	}
	return all
}

// What Kubernetes would keep consistent by itself is so here: slices list the pods that the service selects.
func TestPlatformIsConsistent(t *testing.T) {
	docs := documents(t, bookinfo.Platform())
	pods := map[string]*corev1.Pod{}
	taken := map[string]string{}
	for _, pod := range parse[corev1.Pod](t, docs["Pod"]) {
		pods[pod.Name] = pod
		if other, ok := taken[pod.Status.PodIP]; ok {
			t.Errorf("%s and %s both have %s", other, pod.Name, pod.Status.PodIP)
		}
		taken[pod.Status.PodIP] = pod.Name
	}
	slices := map[string]*discoveryv1.EndpointSlice{}
	for _, s := range parse[discoveryv1.EndpointSlice](t, docs["EndpointSlice"]) {
		slices[s.Labels[discoveryv1.LabelServiceName]] = s
	}
	services := parse[corev1.Service](t, docs["Service"])
	if len(services) != 4 || len(pods) != 7 {
		t.Errorf("%d services and %d pods, want 4 and 7", len(services), len(pods))
	}
	for _, service := range services {
		selected := map[string]bool{}
		for name, pod := range pods {
			if pod.Labels["app"] == service.Spec.Selector["app"] {
				selected[name] = true
			}
		}
		slice := slices[service.Name]
		if slice == nil || len(slice.Endpoints) != len(selected) || len(selected) == 0 {
			t.Errorf("service %s selects pods %v, its slice is %v", service.Name, selected, slice)
			continue
		}
		for _, e := range slice.Endpoints {
			if !selected[e.TargetRef.Name] || e.Addresses[0] != pods[e.TargetRef.Name].Status.PodIP {
				t.Errorf("service %s has the endpoint %v of %s", service.Name, e.Addresses, e.TargetRef.Name)
			}
		}
	}
}

// Every rule is of the API, and every subset it routes to is one that destination-rule-all has, with a pod in it.
func TestRulesAreOfTheAPI(t *testing.T) {
	docs := documents(t, os.DirFS("networking"))
	for kind, more := range documents(t, os.DirFS("consul")) {
		docs[kind] = append(docs[kind], more...)
	}
	versions := map[string]map[string]bool{}
	for _, pod := range parse[corev1.Pod](t, documents(t, bookinfo.Platform())["Pod"]) {
		app := pod.Labels["app"]
		if versions[app] == nil {
			versions[app] = map[string]bool{}
		}
		versions[app][pod.Labels["version"]] = true
	}
	for _, doc := range docs["DestinationRule"] {
		rule := &networking.DestinationRule{}
		specOf(t, doc, rule)
		for _, subset := range rule.Subsets {
			if !versions[appOf(rule.Host)][subset.Labels["version"]] || subset.Name != subset.Labels["version"] {
				t.Errorf("subset %s of %s has labels %v", subset.Name, rule.Host, subset.Labels)
			}
		}
	}
	for _, doc := range docs["VirtualService"] {
		rule := &networking.VirtualService{}
		specOf(t, doc, rule)
		for _, route := range rule.Http {
			total := int32(0)
			for _, d := range route.Route {
				total += d.Weight
				known := versions[appOf(d.Destination.Host)]
				if d.Destination.Host != rule.Hosts[0] || len(known) == 0 || d.Destination.Subset != "" && !known[d.Destination.Subset] {
					t.Errorf("a VirtualService of %v routes to %v", rule.Hosts, d.Destination)
				}
			}
			if len(route.Route) > 1 && total != 100 {
				t.Errorf("weights of %v sum to %d", rule.Hosts, total)
			}
		}
	}
	if len(docs["VirtualService"]) < 10 || len(docs["DestinationRule"]) < 4 {
		t.Errorf("only %d VirtualServices and %d DestinationRules were seen", len(docs["VirtualService"]), len(docs["DestinationRule"]))
	}
}

// appOf returns the app of a host: its own name, or that before the suffix that services in Consul have.
func appOf(host string) string { return strings.TrimSuffix(host, ".service.consul") }

func specOf(t *testing.T, doc []byte, into proto.Message) {
	t.Helper()
	var object struct {
		APIVersion string `json:"apiVersion"`
		Spec       any    `json:"spec"`
	}
	if err := yaml.Unmarshal(doc, &object); err != nil {
		t.Fatal(err)
	}
	if object.APIVersion != "networking.istio.io/v1" {
		t.Errorf("apiVersion %q in:\n%s", object.APIVersion, doc)
	}
	spec, err := yaml.Marshal(object.Spec)
	if err != nil {
		t.Fatal(err)
	}
	text, err := yaml.YAMLToJSON(spec)
	if err != nil {
		t.Fatal(err)
	}
	if err := protojson.Unmarshal(text, into); err != nil {
		t.Errorf("%v in:\n%s", err, doc)
	}
}

func TestNetworking(t *testing.T) {
	files, err := filepath.Glob("networking/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".yaml")
		if text, err := bookinfo.Networking(name); err != nil || !strings.HasPrefix(text, "# ") {
			t.Errorf("rule %s: %v, want a text that begins with a comment on what it does:\n%s", name, err, text)
		}
	}
	if text, err := bookinfo.Rule(bookinfo.ConsulRulePath("reviews-v3")); err != nil || !strings.HasPrefix(text, "# ") {
		t.Errorf("rule for Consul: %v\n%s", err, text)
	}
	if _, err := bookinfo.Networking("none"); err == nil {
		t.Error("there is a rule called none")
	}
}

package serviceentry_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// withStatus returns the object with that status.
func withStatus(t *testing.T, c *config.Config, s config.Status) *config.Config {
	t.Helper()
	meta := c.Meta
	meta.Status = &s
	changed, err := config.New(meta, c.Spec)
	if err != nil {
		t.Fatal(err)
	}
	return changed
}

// TestAllocates checks which hosts need an allocated address.
func TestAllocates(t *testing.T) {
	for _, c := range []struct {
		name, object string
		host         mesh.Hostname
		want         bool
	}{
		{"resolved", dnsEntry, "www.example.com", true},
		{"endpoints", selectingEntry, "vms.example.com", true},
		{"has addresses", staticEntry, "db.example.com", false},
		{"has a bad address", edit(t, selectingEntry, "hosts:", "addresses: [x]\n  hosts:"), "vms.example.com", false},
		{"original destination", passthroughEntry, "*.example.org", false},
		{"wildcard", edit(t, passthroughEntry, "NONE", "STATIC"), "*.example.org", false},
		{"wildcard that is resolved", edit(t, passthroughEntry, "NONE", "DYNAMIC_DNS"), "*.example.org", true},
		{"refused", edit(t, dnsEntry, "name: web", "name: web, labels: {networking.istio.io/enable-autoallocate-ip: 'False'}"), "www.example.com", false},
		{"requested by label", edit(t, dnsEntry, "name: web", "name: web, labels: {networking.istio.io/enable-autoallocate-ip: 'true'}"), "www.example.com", true},
	} {
		if got := service(t, converted(t, object(t, c.object)), c.host).Allocates; got != c.want {
			t.Errorf("%s: %t", c.name, got)
		}
	}
}

// TestAllocated: the addresses in the status of an object stay allocated to its hosts.
func TestAllocated(t *testing.T) {
	status := config.Status{Addresses: []config.HostAddress{
		{Host: "www.example.com", Address: "240.240.0.7"}, {Host: "www.example.com", Address: "2001:2::7"},
		{Host: "www.example.com", Address: "nonsense"}, {Host: "api.example.com", Address: "240.240.0.8"},
	}}
	state := converted(t, withStatus(t, object(t, dnsEntry), status))
	if diff := cmp.Diff([]string{"240.240.0.7", "2001:2::7"}, service(t, state, "www.example.com").Allocated); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if got := service(t, converted(t, withStatus(t, object(t, staticEntry), status)), "db.example.com").Allocated; got != nil {
		t.Errorf("%v for a host that names its addresses", got)
	}
}

// TestHealthChecked: a workload whose agent looks after its health gets no traffic before it was
// found well.
func TestHealthChecked(t *testing.T) {
	checked := object(t, edit(t, workloadEntry, "name: vm-1", "name: vm-1, annotations: {proxy.istio.io/health-checks-enabled: 'true'}"))
	for _, c := range []struct {
		name   string
		object *config.Config
		want   bool
	}{
		{"not checked", object(t, workloadEntry), true},
		{"not checked, with a status", withStatus(t, object(t, workloadEntry), config.Status{}), true},
		{"not found well yet", checked, false},
		{"ill", withStatus(t, checked, config.Status{}), false},
		{"well", withStatus(t, checked, config.Status{Healthy: true}), true},
	} {
		for _, w := range converted(t, c.object).Workloads {
			if w.Ready != c.want {
				t.Errorf("%s: ready %t", c.name, w.Ready)
			}
		}
	}
}

// TestWorkloadMetadata: a workload has the labels of the object and of its spec, and its group is
// its WorkloadGroup.
func TestWorkloadMetadata(t *testing.T) {
	for text, want := range map[string]struct{ owner, app, tier string }{
		workloadEntry: {"vm-1", "vm", ""},
		edit(t, workloadEntry, "name: vm-1", "name: vm-1, labels: {app: other, tier: back}"):                             {"vm-1", "other", "back"},
		edit(t, workloadEntry, "name: vm-1", "name: vm-1, annotations: {istio.io/autoRegistrationGroup: vms}"):           {"vms", "vm", ""},
		edit(t, workloadEntry, "name: vm-1", "name: vm-1, labels: {service.istio.io/workload-name: named}"):              {"named", "vm", ""},
		edit(t, workloadEntry, "address: 192.0.2.7", "address: ''", "name: vm-1", "name: vm-1, labels: {tier: nowhere}"): {"vm-1", "vm", "nowhere"},
	} {
		for _, w := range converted(t, object(t, text)).Workloads {
			if got := (struct{ owner, app, tier string }{w.Owner, w.Labels["app"], w.Labels["tier"]}); got != want {
				t.Errorf("%+v, want %+v of\n%s", got, want, text)
			}
			if want.tier == "nowhere" && (len(w.Addresses) != 0 || w.Network != "net-2") {
				t.Errorf("addresses %v in %q", w.Addresses, w.Network)
			}
		}
	}
}

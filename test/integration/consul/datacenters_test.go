package consul

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/consul/api"

	"github.com/meshpilot/meshpilot/internal/diagnostics/readapi"
	"github.com/meshpilot/meshpilot/test/support/consul"
	"github.com/meshpilot/meshpilot/test/support/controlplane"
	"github.com/meshpilot/meshpilot/test/support/gatewayenv"
	"github.com/meshpilot/meshpilot/test/support/serving"
	"github.com/meshpilot/meshpilot/test/support/sidecar"
)

// TestDatacenters sends requests through a real Envoy to a service that two federated Consul servers of
// different datacenters have. The control plane asks one of them for both. While requests are counted, the
// other datacenter fails and returns, and changes in both apply.
func TestDatacenters(t *testing.T) {
	consul.Require(t)
	east := consul.Start(t, consul.Options{Datacenter: "east"})
	west := consul.Start(t, consul.Options{Datacenter: "west", WAN: east})
	backends := map[string]int{}
	for _, id := range []string{"east-1", "east-2", "west-1"} {
		backends[id] = gatewayenv.StartBackend(t, id)
	}
	register := func(s *consul.Server, id string) {
		t.Helper()
		s.Register("web", id, "127.0.0.1", backends[id], "passing", func(r *api.CatalogRegistration) {
			r.Service.TaggedAddresses = map[string]api.ServiceAddress{"virtual": {Address: "240.0.0.1", Port: 80}}
		})
	}
	register(east, "east-1")
	register(west, "west-1")
	port := serving.FreePort(t)
	e := gatewayenv.Start(t, gatewayenv.Options{Flags: []string{
		"--registries=Consul", "--consulserverURL=" + east.URL, "--consulOtherDatacenters=west", "--consulserverInterval=100ms",
	}})
	route := func(host string) { t.Helper(); e.Write("gateway.yaml", gatewayenv.EdgeYAML(port, host)) }
	await := func(ids ...string) {
		t.Helper()
		gatewayenv.AwaitAnswers(t, fmt.Sprintf("http://127.0.0.1:%d/", port), ids...)
	}
	awaitState := func(want readapi.RegistryState) {
		t.Helper()
		text := fmt.Sprintf(`"name":"consul/%s/west","state":%q`, strings.TrimPrefix(east.URL, "http://"), want)
		serving.Eventually(t, patience, text, func() error {
			page, err := serving.Page("http://" + e.Pages + "/api/v1/registries")
			if err == nil && !strings.Contains(page, text) {
				err = fmt.Errorf("registries %s", page)
			}
			return err
		})
	}
	route("web.service.west.consul")
	await("west-1")
	route("web.service.east.consul")
	await("east-1")
	route("web.service.consul")
	await("east-1", "west-1")
	requireNoFailure := gatewayenv.StartLoad(t, fmt.Sprintf("http://127.0.0.1:%d/", port))

	register(east, "east-2")
	await("east-1", "east-2", "west-1")
	west.Kill()
	awaitState(readapi.RegistryStale)
	east.Deregister("east-1")
	await("east-2", "west-1")
	west.Launch()
	awaitState(readapi.RegistrySynced)
	west.Deregister("west-1")
	await("east-2")
	register(west, "west-1")
	await("east-2", "west-1")
	requireNoFailure()
}

// TestDatacenterAsNetwork: MeshNetworks declares the other datacenter as a network with a gateway.
// A proxy of the first datacenter calls local instances directly, and the others through the
// gateway.
func TestDatacenterAsNetwork(t *testing.T) {
	consul.Require(t)
	east := consul.Start(t, consul.Options{Datacenter: "east"})
	west := consul.Start(t, consul.Options{Datacenter: "west", WAN: east})
	withIdentity := func(r *api.CatalogRegistration) { r.Service.Meta["service-account"] = "web" } // gateways need mutual TLS
	east.Register("web", "east-1", "192.0.2.1", 8080, "passing", withIdentity)
	west.Register("web", "west-1", "192.0.2.1", 8080, "passing", withIdentity) // the address of another machine
	o := controlplane.Options(t)
	o.NetworksConfigFile = filepath.Join(t.TempDir(), "networks.yaml")
	networks := "networks: {far: {endpoints: [{fromRegistry: west}], gateways: [{address: 203.0.113.7, port: 15443}]}}"
	if err := os.WriteFile(o.NetworksConfigFile, []byte(networks), 0o600); err != nil {
		t.Fatal(err)
	}
	o.Registries, o.Consul.URL, o.Consul.OtherDatacenters = []string{"Consul"}, east.URL, []string{"west"}
	o.Authority.Enabled = false
	p := controlplane.Start(t, o)
	x := sidecar.Connect(t, p.GRPC, sidecar.Node("caller", "default", "192.0.2.9", map[string]any{"NAMESPACE": "default"}))
	for cluster, want := range map[string][]string{
		"outbound|8080||web.service.consul":      {"192.0.2.1", "203.0.113.7"},
		"outbound|8080||web.service.east.consul": {"192.0.2.1"},
		"outbound|8080||web.service.west.consul": {"203.0.113.7"},
	} {
		serving.Eventually(t, patience, "endpoints of "+cluster, func() error {
			got := x.Addresses(cluster)
			slices.Sort(got)
			if diff := cmp.Diff(want, got); diff != "" {
				return errors.New(diff)
			}
			return nil
		})
	}
}

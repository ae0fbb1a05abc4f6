package sites

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/meshpilot/meshpilot/internal/base/netns"
	"github.com/meshpilot/meshpilot/internal/diagnostics/localmesh/component"
	"github.com/meshpilot/meshpilot/internal/diagnostics/readapi"
	"github.com/meshpilot/meshpilot/samples/bookinfo/mesh"
	"github.com/meshpilot/meshpilot/test/support/consul"
	"github.com/meshpilot/meshpilot/test/support/serving"
)

// gatewayPort is the port of the gateway into a network.
const gatewayPort = 15443

// siteConfig accepts mutual TLS only, and has the accounts of workloads that are not in Consul, or not yet.
const siteConfig = `
apiVersion: security.istio.io/v1
kind: PeerAuthentication
metadata: {name: default, namespace: istio-system}
spec: {mtls: {mode: STRICT}}
---
apiVersion: networking.istio.io/v1
kind: WorkloadGroup
metadata: {name: client, namespace: default}
spec: {template: {serviceAccount: client}}
---
apiVersion: networking.istio.io/v1
kind: WorkloadGroup
metadata: {name: reviews, namespace: default}
spec: {template: {serviceAccount: reviews}}
---
apiVersion: networking.istio.io/v1
kind: WorkloadGroup
metadata: {name: gateway, namespace: istio-system}
spec: {template: {serviceAccount: gateway}}
---
apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {name: cross-network, namespace: istio-system}
spec:
  selector: {istio: eastwestgateway}
  servers:
  - {port: {number: 15443, name: tls, protocol: TLS}, tls: {mode: AUTO_PASSTHROUGH}, hosts: ["*.consul"]}
---
# A connection through a gateway stays with the instance that the gateway chose for it.
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: imported, namespace: default}
spec:
  host: reviews.service.west.peer.consul
  trafficPolicy: {connectionPool: {http: {maxRequestsPerConnection: 10}}}
`

// site is a datacenter with a Consul server, a control plane and a gateway.
type site struct {
	*world
	name   string
	number byte // of its addresses
	node   *netns.Node
	consul *netns.Process // nil while it does not run
	client *api.Client
	plane  *component.ControlPlane
	wan    []string // arguments that join other datacenters
}

// addSite starts a Consul server. Its number distinguishes the addresses of sites.
func (w *world) addSite(name string, number byte, wan ...*site) *site {
	w.t.Helper()
	s := &site{world: w, name: name, number: number}
	s.node = w.addNode("consul-"+name, 0, 20+number, nil)
	for _, other := range wan {
		s.wan = append(s.wan, "-retry-join-wan="+other.node.Addr().String(), "-retry-interval-wan=1s")
	}
	var err error
	s.client, err = api.NewClient(&api.Config{Address: "127.0.0.1:8500", HttpClient: s.node.Client(10 * time.Second)})
	w.must(err)
	s.launch()
	return s
}

// launch starts the Consul server, and waits until it has registered itself.
func (s *site) launch() {
	s.t.Helper()
	s.consul = s.start(s.node, netns.Command{
		Name: "consul", Path: s.program, Env: []string{"GOMEMLIMIT=256MiB"},
		Args: append([]string{
			"agent", "-server", "-bootstrap-expect=1", "-node=" + s.node.Name(), "-datacenter=" + s.name, "-log-level=info",
			"-bind=" + s.node.Addr().String(), "-client=0.0.0.0", "-data-dir=" + filepath.Join(s.node.Dir(), "data"),
			"-hcl", "disable_update_check = true", "-hcl", "leave_on_terminate = false",
			"-hcl", "performance { raft_multiplier = 1 }", "-hcl", "connect { enabled = true }",
		}, s.wan...),
	})
	serving.Eventually(s.t, patience, "Consul has a leader", func() error {
		list, _, err := s.client.Health().Service("consul", "", true, nil)
		if err == nil && len(list) == 0 {
			err = fmt.Errorf("no server is registered")
		}
		return err
	})
}

// kill ends the Consul server by SIGKILL.
func (s *site) kill() {
	s.t.Helper()
	s.must(s.consul.Signal(syscall.SIGKILL))
	<-s.consul.Done()
}

// register registers an instance of reviews with the identity that its sidecar has.
func (s *site) register(id string, address netip.Addr) {
	s.t.Helper()
	r := consul.Registration("reviews", id, address.String(), port, api.HealthPassing)
	r.Service.Meta["service-account"] = "reviews"
	_, err := s.client.Catalog().Register(r, nil)
	s.must(err)
}

// deregister removes an instance.
func (s *site) deregister(id string) {
	s.t.Helper()
	_, err := s.client.Catalog().Deregister(&api.CatalogDeregistration{Node: "node-" + id}, nil)
	s.must(err)
}

// startPlane starts a control plane that reads the site's Consul server, with more flags.
func (s *site) startPlane(flags ...string) {
	s.t.Helper()
	configDir := filepath.Join(s.dir, "config-"+s.name)
	s.must(os.MkdirAll(configDir, 0o755))
	s.must(os.WriteFile(filepath.Join(configDir, "site.yaml"), []byte(siteConfig), 0o644))
	var err error
	s.plane, err = component.AddControlPlane(s.network, component.ControlPlaneOptions{
		Name: "istiod-" + s.name, Addr: netip.AddrFrom4([4]byte{10, 66, 0, 2 + s.number}), Program: filepath.Join(s.bin, "pilot-discovery"),
		ConfigDir: configDir, CADir: s.caDir(), Domain: domain,
		Args: append([]string{"--registries", "Consul", "--consulserverURL", fmt.Sprintf("http://%s:8500", s.node.Addr())}, flags...),
		Env:  []string{"PILOT_REMOTE_CLUSTER_TIMEOUT=5s"},
	})
	s.must(err)
	s.must(s.plane.Start(s.t.Context()))
	s.showLog(s.plane.Process())
}

// restartPlane ends the control plane and starts it again, and waits until it is ready.
func (s *site) restartPlane() {
	s.t.Helper()
	s.must(s.plane.Stop())
	began := time.Now()
	s.must(s.plane.Start(s.t.Context()))
	s.t.Logf("the control plane of %s is ready after %v", s.name, time.Since(began).Round(time.Millisecond))
	s.showLog(s.plane.Process())
}

// addReviews starts an instance of reviews and returns its address. It is not registered.
func (s *site) addReviews(name string, number byte) netip.Addr {
	s.t.Helper()
	return s.addWorkload(component.Workload{
		Name: name, Namespace: "default", ServiceAccount: "reviews", Labels: map[string]string{"app": "reviews"},
	}, number).Addr()
}

// addClient starts a caller that resolves the hosts.
func (s *site) addClient(number byte, hosts ...string) *netns.Node {
	s.t.Helper()
	return s.addWorkload(component.Workload{Name: "client", Namespace: "default", ServiceAccount: "client"}, number, hosts...)
}

// addGateway starts the gateway into the site's network.
func (s *site) addGateway(number byte) netip.Addr {
	s.t.Helper()
	return s.addWorkload(component.Workload{
		Name: "gateway-" + s.name, Namespace: "istio-system", ServiceAccount: "gateway", Gateway: true,
		Labels: map[string]string{"istio": "eastwestgateway"},
	}, number).Addr()
}

// networksFile returns the path of a file of MeshNetworks in which the cluster of a site is a network with
// a gateway.
func (w *world) networksFile(cluster string, gateway netip.Addr) string {
	w.t.Helper()
	path := filepath.Join(w.dir, "networks.yaml")
	w.must(os.WriteFile(path, fmt.Appendf(nil,
		"networks: {far: {endpoints: [{fromRegistry: %s}], gateways: [{address: %s, port: %d}]}}\n", cluster, gateway, gatewayPort), 0o644))
	return path
}

// awaitState waits until the site's control plane reports a state of the registry whose name ends with a
// text.
func (s *site) awaitState(suffix string, want readapi.RegistryState) {
	s.t.Helper()
	pages := mesh.NewCaller(s.plane.Node)
	defer pages.Close()
	name := fmt.Sprintf("consul/%s:8500/%s", s.node.Addr(), suffix)
	serving.Eventually(s.t, patience, fmt.Sprintf("%s is %s", name, want), func() error {
		a := pages.Get(s.t.Context(), "http://127.0.0.1:8080/api/v1/registries")
		if a.Err != nil {
			return a.Err
		}
		var list readapi.Registries
		if err := json.Unmarshal(a.Body, &list); err != nil {
			return err
		}
		for _, r := range list.Registries {
			if r.Name == name && r.State == want {
				return nil
			}
		}
		return fmt.Errorf("registries %s", a.Body)
	})
}

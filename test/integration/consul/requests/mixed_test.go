package requests

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/meshpilot/meshpilot/internal/base/netns"
	"github.com/meshpilot/meshpilot/internal/diagnostics/readapi"
	"github.com/meshpilot/meshpilot/samples/bookinfo"
	"github.com/meshpilot/meshpilot/samples/bookinfo/mesh"
	"github.com/meshpilot/meshpilot/test/support/cluster"
	"github.com/meshpilot/meshpilot/test/support/pki"
	"github.com/meshpilot/meshpilot/test/support/serving"
)

const (
	// inKubernetes and inConsul are the hosts of reviews on the two platforms.
	inKubernetes = "reviews.default.svc.cluster.local"
	inConsul     = "reviews.service.consul"
	// consulShare is the percentage of the calls of inKubernetes that the rules send to Consul.
	consulShare = 25
	// weighed is the number of requests by which the share is measured. Its standard deviation is then 1.8
	// percentage points, and shareError is four of it.
	weighed    = 600
	shareError = 7
)

// mixedRules accept mutual TLS only, send a share of the calls of inKubernetes to Consul, and add the pod
// reviews-v1 of Kubernetes to the service in Consul.
const mixedRules = `
apiVersion: security.istio.io/v1
kind: PeerAuthentication
metadata: {name: default, namespace: istio-system}
spec: {mtls: {mode: STRICT}}
---
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: consul, namespace: default}
spec:
  host: reviews.service.consul
  subsets: [{name: v2, labels: {version: v2}}]
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: reviews, namespace: default}
spec:
  hosts: [reviews.default.svc.cluster.local]
  http:
  - route:
    - {destination: {host: reviews.default.svc.cluster.local}, weight: 75}
    - {destination: {host: reviews.service.consul, subset: v2}, weight: 25}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: reviews, namespace: default}
spec:
  hosts: [reviews.service.consul]
  location: MESH_INTERNAL
  resolution: STATIC
  ports: [{number: 9080, name: web, protocol: HTTP}]
  workloadSelector: {labels: {app: reviews, version: v1}}
`

// mixed is a mesh of three platforms: reviews-v1, reviews-v3 and the caller are pods of Kubernetes, all others
// are in Consul, and a ServiceEntry in a folder adds reviews-v1 to Consul's service. reviews-v3 is registered in
// Consul too for a time.
type mixed struct {
	*mesh.Mesh
	t       *testing.T
	cluster *cluster.Cluster
	admin   *kubernetes.Clientset
	caller  caller
	pages   *mesh.Caller // from the control plane's node
}

// inAPIServer reports whether a pod of Bookinfo is one of Kubernetes.
func inAPIServer(pod string) bool {
	return slices.Contains([]string{"client", "reviews-v1", "reviews-v3"}, pod)
}

func startMixed(t *testing.T) *mixed {
	t.Helper()
	var x *mixed
	m := startMesh(t, 1, func(o *mesh.Options) {
		c := cluster.Start(t, cluster.Options{})
		must(t, c.Apply(t.Context(), "apiVersion: v1\nkind: Namespace\nmetadata: {name: istio-system}\n"))
		x = &mixed{t: t, cluster: c, admin: c.Client(t)}
		o.Kubeconfig = c.Kubeconfig()
		o.ControlPlaneEnv = []string{"ROOT_CA_DIR=" + plugAuthority(t, o.Dir)}
		o.PrepareControlPlane = x.reachAPIServer
		o.InConsul = func(pod *corev1.Pod) bool { return !inAPIServer(pod.Name) || pod.Name == "reviews-v3" }
		o.Hosts = map[string]netip.Addr{inKubernetes: x.createPlatform()}
	})
	x.Mesh, x.caller, x.pages = m, newCaller(t, m), mesh.NewCaller(m.ControlPlane.Node)
	t.Cleanup(x.pages.Close)
	must(t, m.Consul.Deregister("reviews-v3"))
	must(t, m.Rules.Apply(mixedRules))
	return x
}

// reachAPIServer makes the API server, which is on loopback, reachable at the same address of a node.
func (x *mixed) reachAPIServer(node *netns.Node) error {
	address := strings.TrimPrefix(x.cluster.Config().Host, "https://")
	listener, err := node.Listen("tcp", address)
	if err != nil {
		return err
	}
	f := serving.Forward(listener, func(ctx context.Context) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "tcp", address)
	})
	x.t.Cleanup(func() { f.Close() })
	return nil
}

// plugAuthority writes the authority of operators to the mesh's directory of it and returns that. Without
// one, the control plane would keep its own in the API server, where workloads of Consul have no access.
func plugAuthority(t *testing.T, meshDir string) string {
	t.Helper()
	dir, authority := filepath.Join(meshDir, "ca"), pki.Authority("mesh")
	must(t, os.MkdirAll(dir, 0o700))
	for name, text := range map[string][]byte{
		"ca-cert.pem": authority.CertificatePEM(), "ca-key.pem": authority.KeyPEM(),
		"cert-chain.pem": authority.CertificatePEM(), "root-cert.pem": authority.CertificatePEM(),
	} {
		must(t, os.WriteFile(filepath.Join(dir, name), text, 0o600))
	}
	return dir
}

// createPlatform creates the pods and the service in the API server, and returns the service's address.
func (x *mixed) createPlatform() netip.Addr {
	x.t.Helper()
	pods, err := mesh.Pods(bookinfo.Platform())
	must(x.t, err)
	for _, pod := range pods {
		if !inAPIServer(pod.Name) {
			continue
		}
		created, err := x.admin.CoreV1().Pods(pod.Namespace).Create(x.t.Context(), pod, metav1.CreateOptions{})
		must(x.t, err)
		created.Status = pod.Status
		_, err = x.admin.CoreV1().Pods(pod.Namespace).UpdateStatus(x.t.Context(), created, metav1.UpdateOptions{})
		must(x.t, err)
	}
	service, err := x.admin.CoreV1().Services("default").Create(x.t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "reviews"},
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "http", Port: 9080}}, Selector: map[string]string{"app": "reviews"}},
	}, metav1.CreateOptions{})
	must(x.t, err)
	must(x.t, x.setEndpoints(pods, "reviews-v1", "reviews-v3"))
	return netip.MustParseAddr(service.Spec.ClusterIP)
}

// setEndpoints replaces the EndpointSlice of reviews, as Kubernetes' controller would.
func (x *mixed) setEndpoints(pods []*corev1.Pod, names ...string) error {
	name, port, ready := "http", int32(9080), true
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Name: "reviews", Labels: map[string]string{discoveryv1.LabelServiceName: "reviews"}},
		AddressType: discoveryv1.AddressTypeIPv4, Ports: []discoveryv1.EndpointPort{{Name: &name, Port: &port}},
	}
	for _, pod := range pods {
		if slices.Contains(names, pod.Name) {
			slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{
				Addresses: []string{pod.Status.PodIP}, Conditions: discoveryv1.EndpointConditions{Ready: &ready},
				TargetRef: &corev1.ObjectReference{Kind: "Pod", Name: pod.Name, Namespace: pod.Namespace},
			})
		}
	}
	client := x.admin.DiscoveryV1().EndpointSlices("default")
	ctx := context.Background()
	if _, err := client.Update(ctx, slice, metav1.UpdateOptions{}); err == nil {
		return nil
	}
	_, err := client.Create(ctx, slice, metav1.CreateOptions{})
	return err
}

// setReviews replaces the endpoints of reviews in Kubernetes by those of pods of the mesh.
func (x *mixed) setReviews(names ...string) error {
	var pods []*corev1.Pod
	for _, w := range x.Workloads {
		pods = append(pods, w.Pod)
	}
	return x.setEndpoints(pods, names...)
}

// page decodes a page of the control plane.
func (x *mixed) page(path string, into any) error {
	a := x.pages.Get(x.t.Context(), "http://127.0.0.1:8080"+path)
	if a.Err != nil {
		return a.Err
	}
	return json.Unmarshal(a.Body, into)
}

// awaitStates waits until the registries have these states, by the beginning of their names.
func (x *mixed) awaitStates(want map[string]readapi.RegistryState) {
	x.t.Helper()
	serving.Eventually(x.t, patience, fmt.Sprint("registries ", want), func() error {
		var list readapi.Registries
		if err := x.page("/api/v1/registries", &list); err != nil {
			return err
		}
		got := map[string]readapi.RegistryState{}
		for _, r := range list.Registries {
			kind, _, _ := strings.Cut(r.Name, "/")
			got[kind] = r.State
			if r.State == readapi.RegistryStale && r.Error == "" {
				return fmt.Errorf("%s is stale without an error", r.Name)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			return fmt.Errorf("-want +got:\n%s", diff)
		}
		return nil
	})
}

// requireShare sends requests to inKubernetes and compares the share that Consul's instance answered.
func (x *mixed) requireShare() {
	x.t.Helper()
	versions := map[string]int{}
	for range weighed {
		a := x.caller.Get(x.t.Context(), "http://"+inKubernetes+":9080/reviews/0")
		if a.Version() == "" {
			x.t.Fatalf("answer %s", a)
		}
		versions[a.Version()]++
	}
	share := 100 * float64(versions["v2"]) / weighed
	x.t.Logf("of %d requests: %v, %.1f %% to Consul", weighed, versions, share)
	if share < consulShare-shareError || share > consulShare+shareError || versions["v1"] == 0 || versions["v3"] == 0 {
		x.t.Errorf("%.1f %% of the calls were answered by instances in Consul, want %d: %v", share, consulShare, versions)
	}
}

// requireShards checks the registry and cluster of each endpoint of the two services.
func (x *mixed) requireShards() {
	x.t.Helper()
	var hosts map[string]map[string]struct {
		Shards map[string][]struct{ Addresses []string }
	}
	must(x.t, x.page("/debug/endpointShardz", &hosts))
	got := map[string][]string{}
	for _, host := range []string{inKubernetes, inConsul} {
		for shard, endpoints := range hosts[host]["default"].Shards {
			for _, e := range endpoints {
				got[host] = append(got[host], shard+" "+strings.Join(e.Addresses, ","))
			}
		}
		slices.Sort(got[host])
	}
	want := map[string][]string{
		inKubernetes: {"Kubernetes/Kubernetes 10.66.1.31", "Kubernetes/Kubernetes 10.66.1.33"},
		inConsul:     {"Consul/Kubernetes 10.66.1.32", "External/Kubernetes 10.66.1.31"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		x.t.Errorf("shards (-want +got):\n%s", diff)
	}
}

// requireExplained checks that an explanation of the weighed call names the clusters of both platforms.
func (x *mixed) requireExplained() {
	x.t.Helper()
	a := x.pages.Get(x.t.Context(), "http://127.0.0.1:8080/debug/explain?proxyID=client.default&url=http://"+inKubernetes+":9080/reviews/0")
	for _, want := range []string{"outbound|9080||" + inKubernetes, "outbound|9080|v2|" + inConsul, "10.66.1.31", "10.66.1.32"} {
		if !strings.Contains(string(a.Body), want) {
			x.t.Errorf("the explanation lacks %s: %d %v %s", want, a.Status, a.Err, a.Body)
		}
	}
}

// TestMixedMesh: one control plane reads an API server, a Consul server and a folder. Proxies of
// both platforms call each other, by weights and by a host that two registries define. While
// requests are counted, each platform stops in turn; changes of the other one still apply.
func TestMixedMesh(t *testing.T) {
	x := startMixed(t)
	kubernetesURL, consulURL := "http://"+inKubernetes+":9080/reviews/0", "http://"+inConsul+":9080/reviews/0"
	synced := map[string]readapi.RegistryState{"kubernetes": "synced", "consul": "synced", "file:": "synced"}
	x.awaitStates(synced)
	x.caller.await(kubernetesURL, "v1", "v2", "v3")
	x.caller.await(consulURL, "v1", "v2")
	x.requireShare()
	x.requireShards()
	x.requireExplained()
	back := caller{mesh.NewCaller(x.Workload("ratings-v1").Node), t} // a workload in Consul
	t.Cleanup(back.Close)
	back.await(kubernetesURL, "v1", "v2", "v3")

	load := mesh.StartLoad(x.Workload("client").Node, kubernetesURL, loadRate)
	x.cluster.StopAPIServer()
	x.awaitStates(map[string]readapi.RegistryState{"kubernetes": "stale", "consul": "synced", "file:": "synced"})
	x.changeConsul(consulURL)
	must(t, x.cluster.StartAPIServer(t.Context()))
	x.awaitStates(synced)
	must(t, x.setReviews("reviews-v1"))
	x.caller.await(kubernetesURL, "v1", "v2")

	server := x.Consul.Servers[0]
	must(t, server.Kill(t.Context()))
	x.awaitStates(map[string]readapi.RegistryState{"kubernetes": "synced", "consul": "stale", "file:": "synced"})
	must(t, x.setReviews("reviews-v1", "reviews-v3"))
	x.caller.await(kubernetesURL, "v1", "v2", "v3")
	must(t, server.Start(t.Context()))
	x.awaitStates(synced)
	x.changeConsul(consulURL)
	tally := load.Stop()
	t.Logf("%d requests, %d failed, %v", tally.Sent, tally.Failed, tally.Versions)
	if tally.Failed > 0 || tally.Rate() < loadRate/2 {
		t.Errorf("%d of %d requests failed, at %.0f a second: %v", tally.Failed, tally.Sent, tally.Rate(), tally.Failures)
	}
}

// changeConsul registers reviews-v3 in Consul too and deregisters it, and waits for both changes.
func (x *mixed) changeConsul(url string) {
	x.t.Helper()
	accepted(x.t, "register", func() error { return x.Consul.Register("reviews-v3") })
	x.caller.await(url, "v1", "v2", "v3")
	accepted(x.t, "deregister", func() error { return x.Consul.Deregister("reviews-v3") })
	x.caller.await(url, "v1", "v2")
}

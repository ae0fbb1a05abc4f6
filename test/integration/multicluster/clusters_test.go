package multicluster

import (
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/meshpilot/meshpilot/internal/discovery"
	"github.com/meshpilot/meshpilot/test/support/cluster"
	"github.com/meshpilot/meshpilot/test/support/envoy"
	"github.com/meshpilot/meshpilot/test/support/longtest"
	"github.com/meshpilot/meshpilot/test/support/pki"
	"github.com/meshpilot/meshpilot/test/support/serving"
)

// site is one cluster with the service "web" in it.
type site struct {
	t     *testing.T
	id    string
	admin *kubernetes.Clientset
}

func (s site) namespace(name string, labels map[string]string) {
	s.t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
	if _, err := s.admin.CoreV1().Namespaces().Create(s.t.Context(), ns, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		s.t.Fatal(err)
	}
}

// service writes a Service with a port.
func (s site) service(namespace, name string, port int, edit func(*corev1.Service)) {
	s.t.Helper()
	x := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "http", Port: int32(port)}}, Selector: map[string]string{"app": name}},
	}
	edit(x)
	made, err := s.admin.CoreV1().Services(namespace).Create(s.t.Context(), x, metav1.CreateOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	if made.Status = x.Status; len(x.Status.LoadBalancer.Ingress) > 0 {
		if _, err := s.admin.CoreV1().Services(namespace).UpdateStatus(s.t.Context(), made, metav1.UpdateOptions{}); err != nil {
			s.t.Fatal(err)
		}
	}
}

// endpoints writes the pods of a service, which are named after it.
func (s site) endpoints(namespace, name string, port int, addresses ...string) {
	s.t.Helper()
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Name: name, Labels: map[string]string{discoveryv1.LabelServiceName: name}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: ptr("http"), Port: ptr(int32(port))}},
	}
	for _, a := range addresses {
		pod := s.pod(namespace, name+"-"+strings.ReplaceAll(a, ".", "-"), a)
		slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{
			Addresses: []string{a}, Conditions: discoveryv1.EndpointConditions{Ready: ptr(true)},
			TargetRef: &corev1.ObjectReference{Kind: "Pod", Namespace: namespace, Name: pod.Name, UID: pod.UID},
		})
	}
	slices := s.admin.DiscoveryV1().EndpointSlices(namespace)
	_, err := slices.Update(s.t.Context(), slice, metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) {
		_, err = slices.Create(s.t.Context(), slice, metav1.CreateOptions{})
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s site) pod(namespace, name, address string) *corev1.Pod {
	s.t.Helper()
	pods := s.admin.CoreV1().Pods(namespace)
	if p, err := pods.Get(s.t.Context(), name, metav1.GetOptions{}); err == nil {
		return p
	}
	p, err := pods.Create(s.t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"security.istio.io/tlsMode": "istio"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "app"}}, AutomountServiceAccountToken: ptr(false)},
	}, metav1.CreateOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	p.Status = corev1.PodStatus{
		Phase: corev1.PodRunning, PodIP: address, PodIPs: []corev1.PodIP{{IP: address}},
		Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
	}
	if p, err = pods.UpdateStatus(s.t.Context(), p, metav1.UpdateOptions{}); err != nil {
		s.t.Fatal(err)
	}
	return p
}

func ptr[T any](v T) *T { return &v }

// register writes the Secret by which a cluster is known to the control plane of another.
func register(t *testing.T, in *kubernetes.Clientset, namespace, id string, kubeconfig string) {
	t.Helper()
	text, err := os.ReadFile(kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	s := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Name: "istio-remote-secret-" + id, Labels: map[string]string{"istio/multiCluster": "true"}, Annotations: map[string]string{"networking.istio.io/cluster": id},
		},
		Data: map[string][]byte{id: text},
	}
	secrets := in.CoreV1().Secrets(namespace)
	_, err = secrets.Update(t.Context(), s, metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) {
		_, err = secrets.Create(t.Context(), s, metav1.CreateOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
}

// reader returns a kubeconfig of a service account with the permissions to read a remote cluster.
func reader(t *testing.T, c *cluster.Cluster, name string) string {
	t.Helper()
	c.Grant(t, cluster.ServiceAccount("default", name), rbacv1.PolicyRule{
		APIGroups: []string{"", "discovery.k8s.io", "apiextensions.k8s.io", "multicluster.x-k8s.io", "networking.istio.io", "gateway.networking.k8s.io"}, Verbs: []string{"get", "list", "watch"},
		Resources: []string{"services", "pods", "nodes", "namespaces", "endpointslices", "customresourcedefinitions", "serviceexports", "serviceimports", "workloadentries", "gateways"},
	}, rbacv1.PolicyRule{APIGroups: []string{"authentication.k8s.io"}, Resources: []string{"tokenreviews"}, Verbs: []string{"create"}})
	return kubeconfigOf(t, c, c.ServiceAccountConfig(t, "default", name))
}

func kubeconfigOf(t *testing.T, c *cluster.Cluster, config *rest.Config) string {
	t.Helper()
	return c.KubeconfigOf(t, config)
}

// hosts returns the addresses that an Envoy has for a cluster, sorted.
func hosts(admin, name string) ([]string, error) {
	r, err := http.Get("http://" + admin + "/clusters?format=json")
	if err != nil {
		return nil, err
	}
	defer r.Body.Close()
	var out struct {
		Statuses []struct {
			Name  string `json:"name"`
			Hosts []struct {
				Address struct {
					Socket struct {
						Address string `json:"address"`
						Port    int    `json:"port_value"`
					} `json:"socket_address"`
				} `json:"address"`
			} `json:"host_statuses"`
		} `json:"cluster_statuses"`
	}
	if err := json.NewDecoder(r.Body).Decode(&out); err != nil {
		return nil, err
	}
	list := []string{}
	for _, c := range out.Statuses {
		if c.Name != name {
			continue
		}
		for _, h := range c.Hosts {
			list = append(list, net.JoinHostPort(h.Address.Socket.Address, strconv.Itoa(h.Address.Socket.Port)))
		}
	}
	slices.Sort(list)
	return list, nil
}

// has returns a check that an Envoy has exactly these addresses for a cluster.
func has(admin, name string, want ...string) func() error {
	slices.Sort(want)
	return func() error {
		got, err := hosts(admin, name)
		if err == nil && !slices.Equal(got, want) {
			err = fmt.Errorf("it has %v, want %v", got, want)
		}
		return err
	}
}

// watcher continuously reads the endpoints of an Envoy's cluster.
type watcher struct {
	stop, finished chan struct{}
	looks          int
	lacked         []string
}

// watch fails the test if an Envoy lacks one of these addresses at any time until it is ended.
func watch(admin, name string, always ...string) *watcher {
	w := &watcher{stop: make(chan struct{}), finished: make(chan struct{})}
	go func() {
		defer close(w.finished)
		for {
			select {
			case <-w.stop:
				return
			case <-time.After(5 * time.Millisecond):
			}
			w.looks++
			got, err := hosts(admin, name)
			for _, a := range always {
				if err != nil || !slices.Contains(got, a) {
					w.lacked = append(w.lacked, fmt.Sprintf("look %d: %v (%v)", w.looks, got, err))
				}
			}
		}
	}()
	return w
}

// end ends the watch, and fails the test if anything was ever lacking.
func (w *watcher) end(t *testing.T) {
	t.Helper()
	close(w.stop)
	<-w.finished
	if len(w.lacked) > 0 || w.looks == 0 {
		t.Errorf("in %d looks there were lacking %q", w.looks, w.lacked)
	}
	t.Logf("%d looks", w.looks)
}

// status returns the state of a remote cluster, as the debug page has it.
func (p *controlPlane) status(id string) string {
	text, err := p.GetPage("/debug/clusterz")
	if err != nil {
		p.t.Fatal(err)
	}
	var list []struct{ ID, SyncStatus string }
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		p.t.Fatal(err)
	}
	for _, c := range list {
		if c.ID == id {
			return c.SyncStatus
		}
	}
	return "unknown"
}

func (p *controlPlane) is(id, status string) func() error {
	return func() error {
		if got := p.status(id); got != status {
			return fmt.Errorf("cluster %s is %s, want %s", id, got, status)
		}
		return nil
	}
}

// TestRemoteCluster: endpoints of a remote cluster are added, are retained while its kubeconfig is
// rotated and while its API server is unreachable, and are removed with its Secret. Endpoints of
// another cluster are present all the time. An unreachable cluster does not delay the start (F25).
func TestRemoteCluster(t *testing.T) {
	longtest.Test(t)
	envoy.RequireBinary(t)
	c1, c2 := shared.Start(t), other.Start(t)
	one, two := site{t, "one", c1.Client(t)}, site{t, "two", c2.Client(t)}
	system := c1.Namespace(t, "istio-system-", nil)
	shop := c1.Namespace(t, "shop-", nil)
	two.namespace(shop, nil)
	two.namespace(system, nil)
	const port = 80
	for _, x := range []struct {
		site
		address string
	}{{one, "10.0.1.1"}, {two, "10.0.2.1"}} {
		x.service(shop, "web", port, func(*corev1.Service) {})
		x.endpoints(shop, "web", port, x.address)
	}
	first, second := reader(t, c2, "reader-1-"+shop), reader(t, c2, "reader-2-"+shop)
	dead := c2.Config()
	dead.Host = "https://" + serving.FreeAddress(t)
	register(t, one.admin, system, "dead", kubeconfigOf(t, c2, dead))
	register(t, one.admin, system, "two", first)

	p := startControlPlane(t, c1, system, func(o *discovery.Options) {
		o.ClusterID, o.Remote.Timeout = "one", 2*time.Second
		o.SecretsPlainText = ""
	})
	if got := p.status("dead"); got != "timeout" {
		t.Errorf("the cluster that is not there is %s", got)
	}
	p.until("the other is in sync", patience, p.is("two", "synced"))
	admin := proxy{
		kind: "sidecar", address: "127.0.0.1", name: "client", namespace: shop, labels: "app: client", cluster: "one",
		token: c1.Token(t, shop, "client", "istio-ca"),
	}.run(t, p)
	host := "web." + shop + ".svc.cluster.local"
	name := fmt.Sprintf("outbound|%d||%s", port, host)
	e1, e2, e3 := "10.0.1.1:80", "10.0.2.1:80", "10.0.2.2:80"
	p.until("both clusters' endpoints are served", patience, has(admin, name, e1, e2))
	ours, theirs := watch(admin, name, e1), watch(admin, name, e2)

	// The token is rotated, and the old one is worth nothing.
	register(t, one.admin, system, "two", second)
	p.until("the new kubeconfig is used", patience, p.says("is read by its new kubeconfig"))
	if err := two.admin.CoreV1().ServiceAccounts("default").Delete(t.Context(), "reader-1-"+shop, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	two.endpoints(shop, "web", port, "10.0.2.1", "10.0.2.2")
	p.until("a new endpoint is read with it", patience, has(admin, name, e1, e2, e3))

	c2.StopAPIServer()
	p.until("the failure is reported", patience, func() error {
		text, err := p.GetPage("/debug/problemz")
		if err == nil {
			err = contains(text, "kubernetes/two")
		}
		return err
	})
	if err := has(admin, name, e1, e2, e3)(); err != nil {
		t.Errorf("while the API server is away: %v", err)
	}
	if err := c2.StartAPIServer(t.Context()); err != nil {
		t.Fatal(err)
	}
	two.endpoints(shop, "web", port, "10.0.2.1")
	p.until("it is followed again", patience, has(admin, name, e1, e2))

	theirs.end(t)
	if err := one.admin.CoreV1().Secrets(system).Delete(t.Context(), "istio-remote-secret-two", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	p.until("the cluster is removed", patience, has(admin, name, e1))
	ours.end(t)
}

// TestNetworks: instead of endpoints in another network a proxy has the gateway of that network,
// found by its label in the remote cluster. If a service is local to its cluster, it has none of
// them.
func TestNetworks(t *testing.T) {
	longtest.Test(t)
	envoy.RequireBinary(t)
	c1, c2 := shared.Start(t), other.Start(t)
	one, two := site{t, "one", c1.Client(t)}, site{t, "two", c2.Client(t)}
	system := c1.Namespace(t, "istio-system-", map[string]string{"topology.istio.io/network": "near"})
	shop := c1.Namespace(t, "shop-", nil)
	two.namespace(shop, nil)
	two.namespace(system, map[string]string{"topology.istio.io/network": "far"})
	const port = 80
	for _, x := range []site{one, two} {
		address := map[string]string{"one": "10.0.1.1", "two": "10.0.1.1"}[x.id] // pods of two networks may have one address
		for _, name := range []string{"web", "own"} {
			x.service(shop, name, port, func(*corev1.Service) {})
			x.endpoints(shop, name, port, address)
		}
		network, outside := map[string]string{"one": "near", "two": "far"}[x.id], map[string]string{"one": "198.51.100.1", "two": "198.51.100.2"}[x.id]
		x.service(system, "eastwest", 15443, func(s *corev1.Service) {
			s.Labels = map[string]string{"topology.istio.io/network": network}
			s.Spec.Type = corev1.ServiceTypeLoadBalancer
			s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: outside}}
		})
	}
	meshConfig := t.TempDir() + "/mesh"
	text := fmt.Sprintf("serviceSettings: [{settings: {clusterLocal: true}, hosts: [own.%s.svc.cluster.local]}]\n", shop)
	if err := os.WriteFile(meshConfig, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	register(t, one.admin, system, "two", reader(t, c2, "reader-"+shop))
	p := startControlPlane(t, c1, system, func(o *discovery.Options) {
		o.ClusterID, o.MeshConfigFile = "one", meshConfig
	})
	name := func(service string) string {
		return fmt.Sprintf("outbound|%d||%s.%s.svc.cluster.local", port, service, shop)
	}
	// Endpoints of other networks are for clients that can call them with mutual TLS.
	dir := t.TempDir()
	root, chain, key := dir+"/root.pem", dir+"/chain.pem", dir+"/key.pem"
	authority := pki.Authority("mesh")
	if err := errors.Join(authority.WriteFiles(root, dir+"/root-key.pem"), authority.Issue(new(x509.Certificate)).WriteFiles(chain, key)); err != nil {
		t.Fatal(err)
	}
	files := fmt.Sprintf("TLS_CLIENT_CERT_CHAIN: %s, TLS_CLIENT_KEY: %s, TLS_CLIENT_ROOT_CERT: %s", chain, key, root)
	run := func(network, in string, c *cluster.Cluster) string {
		token := c.Token(t, shop, "client", "istio-ca")
		return proxy{
			kind: "sidecar", address: "127.0.0.1", name: "client-" + in, namespace: shop, labels: "app: client", cluster: in, network: network, token: token,
			more: files,
		}.run(t, p)
	}
	near := run("near", "one", c1)
	p.until("the client has the gateway of the far network", patience, has(near, name("web"), "10.0.1.1:80", "198.51.100.2:15443"))
	p.until("what is local to clusters is that", patience, has(near, name("own"), "10.0.1.1:80"))
	far := run("far", "two", c2) // with a token of its own cluster, which that one has to vouch for
	p.until("the far client has the gateway of the near network", patience, has(far, name("web"), "10.0.1.1:80", "198.51.100.1:15443"))
	p.until("cluster-local services stay local for it too", patience, has(far, name("own"), "10.0.1.1:80"))

	// Then the far gateway is a Gateway of the Gateway API. A Gateway of the class istio-remote is
	// used only in the config cluster.
	sameKind(t, c1, c2, "gateways.gateway.networking.k8s.io")
	const gateway = `{apiVersion: gateway.networking.k8s.io/v1, kind: Gateway, metadata: {name: %s, namespace: %s, labels: {topology.istio.io/network: far}},
  spec: {gatewayClassName: %s, addresses: [{type: IPAddress, value: %s}], listeners: [{name: tls, port: 15443, protocol: TLS, tls: {mode: Passthrough}}]}}`
	p.until("the kind is served", patience, func() error {
		return c2.Apply(t.Context(), fmt.Sprintf(gateway, "eastwest", system, "istio", "198.51.100.3"))
	})
	if err := c2.Apply(t.Context(), fmt.Sprintf(gateway, "nobody", system, "istio-remote", "198.51.100.5")); err != nil {
		t.Fatal(err)
	}
	p.until("both gateways are used", patience, has(near, name("web"), "10.0.1.1:80", "198.51.100.2:15443", "198.51.100.3:15443"))
	if err := two.admin.CoreV1().Services(system).Delete(t.Context(), "eastwest", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	p.until("the Gateway alone does", patience, has(near, name("web"), "10.0.1.1:80", "198.51.100.3:15443"))
	gateways := schema.GroupVersionResource{Group: "gateway.networking.k8s.io", Version: "v1", Resource: "gateways"}
	if err := dynamic.NewForConfigOrDie(c2.Config()).Resource(gateways).Namespace(system).Delete(t.Context(), "eastwest", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := c1.Apply(t.Context(), fmt.Sprintf(gateway, "far", system, "istio-remote", "198.51.100.4")); err != nil {
		t.Fatal(err)
	}
	p.until("one that was written down here does", patience, has(near, name("web"), "10.0.1.1:80", "198.51.100.4:15443"))
}

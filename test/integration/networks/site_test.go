package networks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/meshpilot/meshpilot/test/support/cluster"
	"github.com/meshpilot/meshpilot/test/support/cluster/mesh"
	"github.com/meshpilot/meshpilot/test/support/envoy"
	"github.com/meshpilot/meshpilot/test/support/serving"
)

const (
	// system is the namespace of the control plane and of gateways.
	system   = "istio-system"
	patience = 60 * time.Second
)

// site is a cluster, with the name that the mesh has for it.
type site struct {
	*cluster.Cluster
	t     *testing.T
	id    string
	index int
	admin *kubernetes.Clientset
}

// startSites starts two clusters that reach each other's load balancers and nodes, and nothing else of each other.
func startSites(t *testing.T, names ...string) []site {
	t.Helper()
	cluster.RequireNode(t)
	envoy.RequireBinary(t)
	images, err := mesh.BuildImages(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var sites []site
	for i, name := range names {
		c := cluster.Start(t, cluster.Options{Tier: cluster.Node, Images: images, Index: i})
		sites = append(sites, site{c, t, name, i, c.Client(t)})
	}
	for i, s := range sites {
		for _, o := range sites[:i] {
			if err := s.Connect(o.Cluster); err != nil {
				t.Fatal(err)
			}
			s.separate(o)
			o.separate(s)
		}
	}
	return sites
}

// in returns the same site for another test.
func (s site) in(t *testing.T) site {
	s.t = t
	return s
}

// separate makes the site drop packets from another site to its pods. Their addresses follow from
// [cluster.Options.Index].
func (s site) separate(o site) {
	s.t.Helper()
	pods, node := fmt.Sprintf("10.%d.0.0/16", 244-s.index), fmt.Sprintf("10.%d.0.1", 244-s.index)
	from := fmt.Sprintf("cluster%d", o.index)
	for _, rule := range [][]string{
		{"-A", "PREROUTING", "-i", from, "-d", node, "-j", "ACCEPT"},
		{"-A", "PREROUTING", "-i", from, "-d", pods, "-m", "conntrack", "--ctstate", "NEW", "-j", "DROP"},
	} {
		args := append([]string{"-t", strconv.Itoa(s.NodePID()), "-n", "iptables", "-w", "-t", "mangle"}, rule...)
		if out, err := exec.CommandContext(s.t.Context(), "nsenter", args...).CombinedOutput(); err != nil {
			s.t.Fatalf("%s: %v: %s", s.id, err, out)
		}
	}
}

// namespace makes a namespace, or returns one that is there other labels and annotations.
func (s site) namespace(name string, labels, annotations map[string]string) {
	s.t.Helper()
	text, err := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": name, "labels": labels, "annotations": annotations},
	})
	if err != nil {
		s.t.Fatal(err)
	}
	s.apply(string(text))
}

func (s site) apply(text string) {
	s.t.Helper()
	if err := s.Apply(s.t.Context(), text); err != nil {
		s.t.Fatalf("%s: %v", s.id, err)
	}
}

func (s site) install(charts ...mesh.Chart) {
	s.t.Helper()
	if err := mesh.InstallCharts(s.t.Context(), s.Programs(), s.Kubeconfig(), charts...); err != nil {
		s.t.Fatalf("%s: %v\n%s", s.id, err, s.events())
	}
}

// events returns the cluster's Events about pods that do not start.
func (s site) events() string {
	out, err := s.kubectl("get", "events,pods", "-A", "-o", "wide")
	return fmt.Sprintln(out, err)
}

func (s site) kubectl(args ...string) (string, error) {
	cmd, err := s.Kubectl(context.Background(), args...) //nolint:usetesting // also for tests that have failed
	if err != nil {
		return "", err
	}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// loadBalancer returns the address of a Service, as soon as it has one.
func (s site) loadBalancer(namespace, name string) (address string) {
	s.t.Helper()
	until(s.t, "the address of "+name, func() error {
		service, err := s.admin.CoreV1().Services(namespace).Get(s.t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if len(service.Status.LoadBalancer.Ingress) == 0 {
			return errors.New("it has none")
		}
		address = service.Status.LoadBalancer.Ingress[0].IP
		return nil
	})
	return address
}

// register has a control plane in the namespace of a cluster read another one, by an account of that one.
func (s site) register(in site, namespace, account string) {
	s.t.Helper()
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Name: "istio-remote-secret-" + s.id, Labels: map[string]string{"istio/multiCluster": "true"},
			Annotations: map[string]string{"networking.istio.io/cluster": s.id},
		},
		Data: map[string][]byte{s.id: s.kubeconfig(system, account)},
	}
	secrets := in.admin.CoreV1().Secrets(namespace)
	_, err := secrets.Create(s.t.Context(), secret, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		_, err = secrets.Update(s.t.Context(), secret, metav1.UpdateOptions{})
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

// kubeconfig is that of a service account, for pods of other clusters.
func (s site) kubeconfig(namespace, account string) []byte {
	s.t.Helper()
	config := s.ServiceAccountConfig(s.t, namespace, account)
	config.Host = s.addressForPods()
	return kubeconfigOf(s.t, s.Cluster, config)
}

// addressForPods returns the URL of the API server as pods of other clusters reach it.
func (s site) addressForPods() string {
	s.t.Helper()
	endpoints, err := s.admin.DiscoveryV1().EndpointSlices(metav1.NamespaceDefault).Get(s.t.Context(), "kubernetes", metav1.GetOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	return fmt.Sprintf("https://%s:%d", endpoints.Endpoints[0].Addresses[0], *endpoints.Ports[0].Port)
}

// pods returns the names of pods that are not about to go.
func (s site) pods(namespace, selector string) []string {
	s.t.Helper()
	list, err := s.admin.CoreV1().Pods(namespace).List(s.t.Context(), metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		s.t.Fatal(err)
	}
	var names []string
	for _, p := range list.Items {
		if p.DeletionTimestamp == nil {
			names = append(names, p.Name)
		}
	}
	return names
}

// rolledOut waits until Deployments are as they should be.
func (s site) rolledOut(namespace string, names ...string) {
	s.t.Helper()
	for _, name := range names {
		if out, err := s.kubectl("-n", namespace, "rollout", "status", "deployment/"+name, "--timeout=90s"); err != nil {
			s.t.Fatalf("%s: %s: %v: %s\n%s", s.id, name, err, out, s.events())
		}
	}
}

// do runs kubectl, which must succeed, and returns its output.
func (s site) do(args ...string) string {
	s.t.Helper()
	out, err := s.kubectl(args...)
	if err != nil {
		s.t.Fatalf("kubectl %v: %v: %s", args, err, out)
	}
	return out
}

// debug returns a check that a debug page of a control plane has a text.
func (s site) debug(namespace, page, text string) func() error {
	return func() error {
		istiod := s.pods(namespace, "app=istiod")
		if len(istiod) == 0 {
			return errors.New("no control plane")
		}
		out, err := s.Exec(s.t.Context(), namespace, istiod[0], "discovery", "curl", "-s", "http://localhost:8080/debug/"+page)
		if err == nil && !strings.Contains(out, text) {
			err = fmt.Errorf("the output does not contain %q: %s", text, out)
		}
		return err
	}
}

// until waits until check has no error.
func until(t *testing.T, what string, check func() error) {
	t.Helper()
	began := time.Now()
	serving.Eventually(t, patience, what, check)
	t.Logf("%5.1fs %s", time.Since(began).Seconds(), what)
}

// hosts returns a statistic (cx_total, rq_total, …) of the hosts of one of a proxy's clusters, by
// their addresses.
func (s site) hosts(namespace, pod, cluster, number string) map[string]int {
	s.t.Helper()
	out, err := s.Exec(s.t.Context(), namespace, pod, "istio-proxy", "pilot-agent", "request", "GET", "clusters")
	if err != nil {
		s.t.Fatal(err)
	}
	list := map[string]int{}
	for line := range strings.Lines(out) {
		rest, ok := strings.CutPrefix(line, cluster+"::")
		address, value, counted := strings.Cut(strings.TrimSpace(rest), "::"+number+"::")
		if ok && counted {
			list[address], _ = strconv.Atoi(value)
		}
	}
	return list
}

// passed returns how many connections the gateway of a site has handed on to a cluster.
func (s site) passed(cluster string) (sum int) {
	s.t.Helper()
	for _, pod := range s.pods(system, "app=istio-eastwestgateway") {
		for _, n := range s.hosts(system, pod, cluster, "cx_total") {
			sum += n
		}
	}
	return sum
}

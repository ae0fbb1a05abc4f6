package pilotctl

import (
	"bytes"
	"os"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/meshpilot/meshpilot/internal/diagnostics/cli"
	"github.com/meshpilot/meshpilot/internal/discovery"
	"github.com/meshpilot/meshpilot/internal/kube"
	"github.com/meshpilot/meshpilot/test/support/cluster"
	"github.com/meshpilot/meshpilot/test/support/controlplane"
	"github.com/meshpilot/meshpilot/test/support/longtest"
	"github.com/meshpilot/meshpilot/test/support/serving"
)

var (
	options = cluster.Options{IstioKinds: true}
	shared  = cluster.NewShared(options)
)

func TestMain(m *testing.M) { os.Exit(shared.Around(m).Run()) }

const patience = 30 * time.Second

// lab is an API server with a node and namespaces of the test's own.
type lab struct {
	*testing.T
	cluster      *cluster.Cluster
	client       *kube.Client
	kubelet      *kubelet
	system, shop string
	node         string
}

// newLab returns a lab on the API server of all tests.
func newLab(t *testing.T) *lab {
	t.Helper()
	longtest.Test(t) // the API server takes seconds to start
	c := shared.Start(t)
	return newLabOn(t, c, c.Namespace(t, "istio-system", nil), c.Namespace(t, "shop", nil))
}

// newLabAlone returns a lab on an API server of its own, for tests of commands that look at all
// namespaces. Its namespaces are istio-system and shop.
func newLabAlone(t *testing.T) *lab {
	t.Helper()
	longtest.Test(t)
	c := cluster.Start(t, options)
	for _, name := range []string{"istio-system", "shop"} {
		if err := c.Apply(t.Context(), "apiVersion: v1\nkind: Namespace\nmetadata: {name: "+name+"}"); err != nil {
			t.Fatal(err)
		}
	}
	return newLabOn(t, c, "istio-system", "shop")
}

func newLabOn(t *testing.T, c *cluster.Cluster, system, shop string) *lab {
	t.Helper()
	client, err := kube.NewClient(c.Config())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.HTTP.CloseIdleConnections)
	l := &lab{
		T: t, cluster: c, client: client, kubelet: startKubelet(t), system: system, shop: shop,
	}
	l.node = "node-" + l.system
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: l.node}}
	if node, err = client.Kubernetes.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "127.0.0.1"}}
	node.Status.DaemonEndpoints.KubeletEndpoint.Port = l.kubelet.port
	if _, err := client.Kubernetes.CoreV1().Nodes().UpdateStatus(t.Context(), node, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	return l
}

// pod creates a running pod on the node.
func (l *lab) pod(namespace, name string, labels map[string]string, change func(*corev1.Pod)) *corev1.Pod {
	l.Helper()
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace, Labels: labels},
		Spec:       corev1.PodSpec{NodeName: l.node, Containers: []corev1.Container{{Name: "discovery", Image: "pilot"}}},
	}
	if change != nil {
		change(p)
	}
	status := p.Status
	p, err := l.client.Kubernetes.CoreV1().Pods(namespace).Create(l.Context(), p, metav1.CreateOptions{})
	if err != nil {
		l.Fatal(err)
	}
	if status.Phase == "" {
		status = corev1.PodStatus{
			Phase: corev1.PodRunning, PodIP: "10.9.0.1", PodIPs: []corev1.PodIP{{IP: "10.9.0.1"}},
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
		}
	}
	p.Status = status
	if p, err = l.client.Kubernetes.CoreV1().Pods(namespace).UpdateStatus(l.Context(), p, metav1.UpdateOptions{}); err != nil {
		l.Fatal(err)
	}
	return p
}

// replica is a control plane in this process, as a pod of the cluster.
type replica struct {
	*controlplane.Plane
	l    *lab
	name string
}

// replica starts a control plane, waits until it is ready, and creates its pod.
func (l *lab) replica(name, revision string, change func(*discovery.Options)) *replica {
	l.Helper()
	o := controlplane.Options(l)
	o.Namespace, o.PodName = l.system, name
	o.Kubernetes.Kubeconfig = l.cluster.Kubeconfig()
	o.Authority.Enabled = false
	o.ShutdownDuration = time.Second
	if change != nil {
		change(&o)
	}
	r := &replica{controlplane.Start(l, o), l, name}
	l.kubelet.forward(name, 8080, r.HTTP)
	l.pod(l.system, name, map[string]string{"app": "istiod", "istio.io/rev": revision}, nil)
	return r
}

// result is the output and the exit code of a command.
type result struct {
	out, errors string
	code        int
}

// pilotctl runs a command with the cluster's kubeconfig in the environment.
func (l *lab) pilotctl(args ...string) result {
	l.Helper()
	variables := map[string]string{"KUBECONFIG": l.cluster.Kubeconfig(), "PILOTCTL_ISTIO_NAMESPACE": l.system}
	c := cli.NewIn(cli.Environment{Variable: func(name string) string { return variables[name] }})
	var out, errors bytes.Buffer
	c.SetOut(&out)
	c.SetErr(&errors)
	c.SetArgs(args)
	err := c.ExecuteContext(l.Context())
	if err != nil {
		errors.WriteString("pilotctl: " + err.Error() + "\n")
	}
	return result{out.String(), errors.String(), cli.ExitCode(err)}
}

func (l *lab) eventually(what string, check func() error) {
	l.Helper()
	serving.Eventually(l, patience, what, check)
}

// apply makes or changes objects as kubectl does.
func (l *lab) apply(manifests string) {
	l.Helper()
	if err := l.cluster.Apply(l.Context(), manifests); err != nil {
		l.Fatal(err)
	}
}

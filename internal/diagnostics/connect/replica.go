package connect

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/meshpilot/meshpilot/internal/kube"
)

// Replica is one replica of a control plane.
type Replica struct {
	// Name is the name of the pod, or the address.
	Name string
	// Pod is the replica's pod, or nil if it is reached by an address.
	Pod *corev1.Pod
	// Transport sends requests to the replica's HTTP port.
	Transport http.RoundTripper
	// BaseURL is the URL of the port without a path.
	BaseURL string

	closeTransport func()
}

// ControlPlane is a control plane that can be asked.
type ControlPlane struct {
	Replicas []*Replica
	// Complete is true if Replicas are all replicas, each of which must be asked for itself only.
	// Otherwise a replica asks the others.
	Complete bool
}

// Close closes the connections to all replicas, and their port-forwards.
func (c *ControlPlane) Close() {
	for _, r := range c.Replicas {
		r.closeTransport()
	}
}

// Open returns the control plane that the options select: Servers, else XDSAddress, else the pods
// of the kubeconfig's cluster, else DefaultAddress. It connects to the API server only, and returns
// ErrNoPods if that has no pod of the control plane.
func Open(ctx context.Context, o Options) (*ControlPlane, error) {
	switch {
	case len(o.Servers) > 0:
		return openAddresses(o.Servers), nil
	case o.XDSAddress != "":
		return openXDS(ctx, o)
	case o.HasKubeconfig():
		return openPods(ctx, o)
	default:
		return openAddresses([]string{DefaultAddress}), nil
	}
}

// openAddresses returns the replicas with HTTP ports. They are Complete if there are several.
func openAddresses(addresses []string) *ControlPlane {
	c := &ControlPlane{Complete: len(addresses) > 1}
	for _, address := range addresses {
		t := new(http.Transport)
		c.Replicas = append(c.Replicas, &Replica{
			Name: address, Transport: t, BaseURL: "http://" + address, closeTransport: t.CloseIdleConnections,
		})
	}
	return c
}

// openPods returns the replicas that run in the kubeconfig's cluster, all of them. It returns
// ErrNoPods if there are none.
func openPods(ctx context.Context, o Options) (*ControlPlane, error) {
	client, err := o.Client()
	if err != nil {
		return nil, err
	}
	defer client.HTTP.CloseIdleConnections()
	pods, err := Pods(ctx, client, o.namespace(), o.Revision)
	if err != nil {
		return nil, err
	}
	c := &ControlPlane{Complete: true}
	for i := range pods {
		c.Replicas = append(c.Replicas, NewPodReplica(client.Config, &pods[i]))
	}
	return c, nil
}

// NewPodReplica returns the replica in a pod. The first request to it starts a port-forward.
func NewPodReplica(config *rest.Config, pod *corev1.Pod) *Replica {
	port := httpPort(pod)
	f := NewForwarder(config, pod.Namespace, pod.Name, port)
	t := &http.Transport{DialContext: f.DialContext}
	return &Replica{
		// The control plane refuses other names over the loopback interface, against DNS rebinding.
		Name: pod.Name, Pod: pod, Transport: t, BaseURL: fmt.Sprintf("http://localhost:%d", port),
		closeTransport: func() { t.CloseIdleConnections(); f.Close() },
	}
}

// controlPlaneLabel is the label that the charts of istiod set on its pods.
const controlPlaneLabel = "app=istiod"

// Pods returns the running pods of the control plane, sorted by name. If revision is set, only its
// pods are returned. It returns ErrNoPods if there are none.
func Pods(ctx context.Context, client *kube.Client, namespace, revision string) ([]corev1.Pod, error) {
	selector := controlPlaneLabel
	if revision != "" {
		selector += ",istio.io/rev=" + revision
	}
	list, err := client.Kubernetes.CoreV1().Pods(namespace).List(quiet(ctx),
		metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return nil, fmt.Errorf("find the control plane (--istioNamespace %s): %w", namespace, err)
	}
	pods := slices.DeleteFunc(list.Items, func(p corev1.Pod) bool {
		return p.Status.Phase != corev1.PodRunning || p.DeletionTimestamp != nil
	})
	if len(pods) == 0 {
		return nil, fmt.Errorf("%w: no running pod with the labels %s in namespace %s; --istioNamespace, --revision and --context select others",
			ErrNoPods, selector, namespace)
	}
	slices.SortFunc(pods, func(a, b corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
	return pods, nil
}

// ErrNoPods means that no pod of the control plane runs.
var ErrNoPods = errors.New("the control plane does not run")

// HTTP ports of istiod: the local one, and the one for monitoring.
const (
	debugPort      = 8080
	monitoringPort = 15014
)

// httpPort returns the HTTP port of a pod that serves debug pages: monitoringPort if the pod
// declares only that one, otherwise debugPort.
func httpPort(pod *corev1.Pod) int {
	declares := func(number int32) bool {
		return slices.ContainsFunc(pod.Spec.Containers, func(c corev1.Container) bool {
			return slices.ContainsFunc(c.Ports, func(p corev1.ContainerPort) bool { return p.ContainerPort == number })
		})
	}
	if !declares(debugPort) && declares(monitoringPort) {
		return monitoringPort
	}
	return debugPort
}

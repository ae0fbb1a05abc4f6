package offline

import (
	"encoding/json"
	"io"
	"maps"
	"net/netip"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/config/decode"
)

// tlsModeLabel is the label with which injection marks a pod whose sidecar accepts mutual TLS.
const tlsModeLabel = "security.istio.io/tlsMode"

// ReadRunning returns the objects of the files that ReadFiles reads, as if a cluster ran them: with
// a Pod for each workload, as ReadWorkloads, and with addresses, as SetAddresses.
func ReadRunning(paths []string, stdin io.Reader) (*Objects, error) {
	o, err := ReadWorkloads(paths, stdin)
	if err != nil {
		return nil, err
	}
	SetAddresses(o)
	return o, nil
}

// ReadWorkloads returns the objects of the files that ReadFiles reads, and a Pod for each
// Deployment, StatefulSet and DaemonSet, with its name. Mistakes in objects are Problems of the
// result, not errors.
func ReadWorkloads(paths []string, stdin io.Reader) (*Objects, error) {
	files, err := ReadFiles(paths, stdin)
	if err != nil {
		return nil, err
	}
	o := DecodeObjects("", nil)
	for _, f := range files {
		o.addManifest(f.Name, f.Text)
		o.addTemplates(f)
	}
	return o, nil
}

// addTemplates adds a Pod for each Deployment, StatefulSet and DaemonSet of a file, with its name.
// It skips a workload that cannot be decoded or whose name a Pod has already. The namespace is
// "default" if the workload has none.
func (o *Objects) addTemplates(f File) {
	documents := decode.Documents(f.Name, f.Text)
	for _, n := range slices.Sorted(maps.Keys(documents)) {
		w := new(appsv1.Deployment)
		if json.Unmarshal(documents[n], w) != nil ||
			!slices.Contains([]string{"Deployment", "StatefulSet", "DaemonSet"}, w.Kind) {
			continue
		}
		namespace := w.Namespace
		if namespace == "" {
			namespace = "default"
		}
		k := config.Key{Kind: api.Pod, Namespace: namespace, Name: w.Name}
		pod := &corev1.Pod{ObjectMeta: w.Spec.Template.ObjectMeta, Spec: w.Spec.Template.Spec}
		pod.Name, pod.Namespace = k.Name, k.Namespace
		c, err := config.New(config.Meta{Key: k, Labels: pod.Labels, Annotations: pod.Annotations, Origin: f.Name}, pod)
		if err == nil && o.List[k] == nil {
			o.List[k] = c
		}
	}
}

// SetAddresses sets the missing addresses of Pods and Services in states of a mesh, in the order of
// their keys. An object has the same address in all states. Pods that get one are running and
// ready, and accept mutual TLS unless they have no sidecar: in the host network, or if their label
// sidecar.istio.io/inject is "false", or without the label their annotation of that name.
func SetAddresses(states ...*Objects) {
	keys := map[config.Key]bool{}
	for _, o := range states {
		for k := range o.List {
			keys[k] = true
		}
	}
	var addresses Addresses
	for _, k := range slices.SortedFunc(maps.Keys(keys), config.Key.Compare) {
		for _, o := range states {
			if c := o.List[k]; c != nil {
				o.List[k] = addresses.complete(c)
			}
		}
	}
}

// complete returns c with an address, if it is a Pod or Service without one, and c itself
// otherwise. A Pod that has a sidecar also gets the label of mutual TLS.
func (a *Addresses) complete(c *config.Config) *config.Config {
	spec := a.Assign(c.Key, c.Spec)
	if spec == c.Spec {
		return c
	}
	meta := c.Meta
	if pod, ok := spec.(*corev1.Pod); ok && hasSidecar(pod) {
		meta.Labels = maps.Clone(meta.Labels)
		if meta.Labels == nil {
			meta.Labels = map[string]string{}
		}
		meta.Labels[tlsModeLabel] = "istio"
		pod.Labels = meta.Labels
	}
	next, err := config.New(meta, spec)
	if err != nil {
		return c
	}
	return next
}

// hasSidecar reports whether injection is taken to add a sidecar to a pod: to every pod that is
// neither in the host network nor excludes itself.
func hasSidecar(pod *corev1.Pod) bool {
	return !pod.Spec.HostNetwork && api.InjectionSetting(&pod.ObjectMeta) != "false"
}

// Addresses assigns addresses of the reserved network 240.0.0.0/4, so that no object has them. The
// first is 240.0.0.1. The zero value is ready for use.
type Addresses struct{ assigned map[config.Key]string }

// Assign returns a copy of a Pod or Service without an address, with the one of the key k: the Pod
// running and ready, the Service as an API server completes it. A new key gets the next address.
// Other objects are returned as they are, and so are headless Services and Services of type
// ExternalName.
func (a *Addresses) Assign(k config.Key, spec any) any {
	switch spec := spec.(type) {
	case *corev1.Pod:
		if spec.Status.PodIP != "" {
			return spec
		}
		address := a.addressOf(k)
		pod := spec.DeepCopy()
		pod.Status = corev1.PodStatus{
			Phase: corev1.PodRunning, PodIP: address, PodIPs: []corev1.PodIP{{IP: address}},
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
		}
		return pod
	case *corev1.Service:
		if !api.NeedsClusterIP(&spec.Spec) {
			return spec
		}
		address := a.addressOf(k)
		service := spec.DeepCopy()
		service.Spec.ClusterIP, service.Spec.ClusterIPs = address, []string{address}
		return service
	default:
		return spec
	}
}

// addressOf returns the address of a key. A new key is assigned the next address of 240.0.0.0/8,
// which it keeps.
func (a *Addresses) addressOf(k config.Key) string {
	if a.assigned == nil {
		a.assigned = map[config.Key]string{}
	}
	if a.assigned[k] == "" {
		n := len(a.assigned) + 1
		a.assigned[k] = netip.AddrFrom4([4]byte{240, byte(n >> 16), byte(n >> 8), byte(n)}).String()
	}
	return a.assigned[k]
}

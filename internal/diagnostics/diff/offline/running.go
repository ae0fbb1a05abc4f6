package offline

import (
	"encoding/json"
	"io"
	"maps"
	"net/netip"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"istio.io/api/label"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/config/decode"
)

// tlsModeLabel is the label with which injection marks a pod whose sidecar accepts mutual TLS.
const tlsModeLabel = "security.istio.io/tlsMode"

// ReadRunning returns the objects of the files that ReadFiles reads, as if a cluster ran them: each
// Deployment, StatefulSet and DaemonSet has one pod with its name, and Pods and Services without an
// address have one of the reserved network 240.0.0.0/4. Pods that get an address accept mutual TLS,
// unless their label sidecar.istio.io/inject is "false".
func ReadRunning(paths []string, stdin io.Reader) (*Objects, error) {
	files, err := ReadFiles(paths, stdin)
	if err != nil {
		return nil, err
	}
	o := DecodeObjects("", nil)
	for _, f := range files {
		o.addManifest(f.Name, f.Text)
		o.addTemplates(f)
	}
	o.setAddresses()
	return o, nil
}

// addTemplates adds a Pod for each Deployment, StatefulSet and DaemonSet of a file, with its name.
// It skips a workload that cannot be decoded or whose name a Pod has already.
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

// setAddresses sets the missing addresses of Pods and Services, in the order of their keys. Pods
// that get one are running and ready, and have tlsModeLabel unless their injection is disabled.
func (o *Objects) setAddresses() {
	var addresses Addresses
	for _, k := range slices.SortedFunc(maps.Keys(o.List), config.Key.Compare) {
		meta := o.List[k].Meta
		spec := addresses.Assign(o.List[k].Spec)
		if spec == o.List[k].Spec {
			continue
		}
		if pod, ok := spec.(*corev1.Pod); ok && pod.Labels[label.SidecarInject.Name] != "false" {
			meta.Labels = maps.Clone(meta.Labels)
			if meta.Labels == nil {
				meta.Labels = map[string]string{}
			}
			meta.Labels[tlsModeLabel] = "istio"
			pod.Labels = meta.Labels
		}
		if c, err := config.New(meta, spec); err == nil {
			o.List[k] = c
		}
	}
}

// Addresses assigns addresses of the reserved network 240.0.0.0/4, so that no object has them. The
// first is 240.0.0.1.
type Addresses struct{ count uint32 }

// Assign returns a copy of a Pod or Service without an address, with the next one: the Pod running
// and ready, the Service as an API server completes it. Other objects are returned as they are, and
// so are headless Services and those of type ExternalName.
func (a *Addresses) Assign(spec any) any {
	switch spec := spec.(type) {
	case *corev1.Pod:
		if spec.Status.PodIP != "" {
			return spec
		}
		address := a.next()
		pod := spec.DeepCopy()
		pod.Status = corev1.PodStatus{
			Phase: corev1.PodRunning, PodIP: address, PodIPs: []corev1.PodIP{{IP: address}},
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
		}
		return pod
	case *corev1.Service:
		if spec.Spec.ClusterIP != "" || len(spec.Spec.ClusterIPs) > 0 ||
			spec.Spec.Type == corev1.ServiceTypeExternalName {
			return spec
		}
		address := a.next()
		service := spec.DeepCopy()
		service.Spec.ClusterIP, service.Spec.ClusterIPs = address, []string{address}
		return service
	default:
		return spec
	}
}

// next returns the next address.
func (a *Addresses) next() string {
	a.count++
	return netip.AddrFrom4([4]byte{240, byte(a.count >> 16), byte(a.count >> 8), byte(a.count)}).String()
}

package inject

import (
	"fmt"
	"slices"

	meshconfig "istio.io/api/mesh/v1alpha1"
	networkingv1beta1 "istio.io/api/networking/v1beta1"

	"istio.io/api/annotation"

	"google.golang.org/protobuf/proto"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// ProxyConfigOf gives the ProxyConfig for a pod: the mesh's defaultConfig, then the objects of kind ProxyConfig of the root
// namespace and of the pod's, then the pod's annotation proxy.istio.io/config, then the object that selects the pod. Of several
// objects for the same the oldest counts. ignored is what of the annotation is unknown.
func ProxyConfigOf(m *meshconfig.MeshConfig, objects []*config.Config, pod *corev1.Pod, namespace string) (c *meshconfig.ProxyConfig, ignored, err error) {
	c = mesh.DefaultProxyConfig()
	if d := m.GetDefaultConfig(); d != nil {
		c = proto.CloneOf(d)
	}
	objects = slices.SortedFunc(slices.Values(objects), config.Older)
	if root := m.GetRootNamespace(); root != "" {
		lay(c, first(objects, root, nil))
	}
	if namespace != m.GetRootNamespace() {
		lay(c, first(objects, namespace, nil))
	}
	if own, ok := pod.Annotations[annotation.ProxyConfig.Name]; ok {
		if c, ignored, err = mesh.OverlayProxyConfig(c, []byte(own)); err != nil {
			return nil, nil, fmt.Errorf("annotation %s: %w", annotation.ProxyConfig.Name, err)
		}
	}
	lay(c, first(objects, namespace, pod.Labels))
	return c, ignored, nil
}

// first gives the first object of a namespace that selects a pod with these labels; nil labels: the first for all pods.
func first(objects []*config.Config, namespace string, podLabels map[string]string) *networkingv1beta1.ProxyConfig {
	for _, o := range objects {
		spec, ok := o.Spec.(*networkingv1beta1.ProxyConfig)
		if !ok || o.Namespace != namespace {
			continue
		}
		selector := spec.GetSelector().GetMatchLabels()
		if podLabels == nil && len(selector) == 0 ||
			podLabels != nil && len(selector) > 0 && labels.SelectorFromSet(selector).Matches(labels.Set(podLabels)) {
			return spec
		}
	}
	return nil
}

// lay puts what an object sets over a configuration.
func lay(c *meshconfig.ProxyConfig, over *networkingv1beta1.ProxyConfig) {
	if over.GetConcurrency() != nil {
		c.Concurrency = over.Concurrency
	}
	if over.GetImage() != nil {
		c.Image = over.Image
	}
	for k, v := range over.GetEnvironmentVariables() {
		if c.ProxyMetadata == nil {
			c.ProxyMetadata = map[string]string{}
		}
		c.ProxyMetadata[k] = v
	}
}

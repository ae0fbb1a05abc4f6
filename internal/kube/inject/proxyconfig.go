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

// EffectiveProxyConfig returns the ProxyConfig for a pod, based on the mesh's defaultConfig or else
// Istio's defaults. Over it are merged the root and pod namespace's objects without a selector, the
// pod's annotation, and the object of its namespace that selects it, in this order. Of several
// objects of one level the oldest applies. ignored describes unknown fields of the annotation; err
// is set if that is invalid.
func EffectiveProxyConfig(
	m *meshconfig.MeshConfig,
	objects []*config.Config,
	pod *corev1.Pod,
	namespace string,
) (c *meshconfig.ProxyConfig, ignored, err error) {
	c = mesh.DefaultProxyConfig()
	if d := m.GetDefaultConfig(); d != nil {
		c = proto.CloneOf(d)
	}
	objects = slices.SortedFunc(slices.Values(objects), config.CompareAge)
	if root := m.GetRootNamespace(); root != "" {
		mergeProxyConfig(c, firstMatching(objects, root, nil))
	}
	if namespace != m.GetRootNamespace() {
		mergeProxyConfig(c, firstMatching(objects, namespace, nil))
	}
	if override, ok := pod.Annotations[annotation.ProxyConfig.Name]; ok {
		if c, ignored, err = mesh.OverlayProxyConfig(c, []byte(override)); err != nil {
			return nil, nil, fmt.Errorf("annotation %s: %w", annotation.ProxyConfig.Name, err)
		}
	}
	if pod.Labels != nil { // otherwise no selector matches
		mergeProxyConfig(c, firstMatching(objects, namespace, pod.Labels))
	}
	return c, ignored, nil
}

// firstMatching returns the first object in a namespace that selects a pod with these labels. If
// podLabels is nil, it returns the first object without a selector. It returns nil if there is
// none.
func firstMatching(
	objects []*config.Config,
	namespace string,
	podLabels map[string]string,
) *networkingv1beta1.ProxyConfig {
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

// mergeProxyConfig sets the fields of c that over sets: concurrency, image and environment
// variables, which are merged by name. It does nothing if over is nil. Messages are shared with
// over.
func mergeProxyConfig(c *meshconfig.ProxyConfig, over *networkingv1beta1.ProxyConfig) {
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

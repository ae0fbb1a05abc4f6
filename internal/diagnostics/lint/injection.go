package lint

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"istio.io/api/annotation"
	"istio.io/api/label"
	networking "istio.io/api/networking/v1beta1"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/code"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/snapshot"
)

// injectionLabel is the label of namespaces for the default revision.
const injectionLabel = "istio-injection"

// injectorName is the name of the ConfigMap with the settings of injection, and the prefix of the
// names for other revisions.
const injectorName = "istio-sidecar-injector"

// injectorValues is the part of the settings of injection that is checked.
type injectorValues struct {
	Global struct {
		Hub   string `json:"hub"`
		Tag   any    `json:"tag"`
		Proxy struct {
			Image string `json:"image"`
		} `json:"proxy"`
	} `json:"global"`
	Webhook struct {
		NamespacesByDefault bool `json:"enableNamespacesByDefault"`
	} `json:"sidecarInjectorWebhook"`
}

// injector returns the values in the injector's ConfigMap of a revision; "" is the default one. It
// is the first ConfigMap of that name in any namespace whose values can be decoded. It returns nil
// if there is none.
func (r *analysisRun) injector(revision string) *injectorValues {
	name := injectorName
	if revision != "" && revision != "default" {
		name += "-" + revision
	}
	for _, o := range r.ofKind(api.ConfigMap) {
		var v injectorValues
		if o.key.Name == name && json.Unmarshal([]byte(decodeAs[configMapData](o).Data["values"]), &v) == nil {
			return &v
		}
	}
	return nil
}

// image returns the image of the proxy that injection uses, HUB/IMAGE:TAG unless the image has a
// slash.
func (v *injectorValues) image() string {
	if strings.Contains(v.Global.Proxy.Image, "/") {
		return v.Global.Proxy.Image
	}
	return fmt.Sprintf("%s/%s:%v", v.Global.Hub, v.Global.Proxy.Image, v.Global.Tag)
}

// namespace returns the Namespace with a name, or nil if the files have none.
func (r *analysisRun) namespace(name string) *object {
	return r.byKey[config.Key{Kind: api.Namespace, Name: name}]
}

// isInjected reports whether the labels of a namespace enable injection: istio-injection=enabled,
// or istio.io/rev without istio-injection. It returns false for an unknown namespace.
func (r *analysisRun) isInjected(name string) bool {
	n := r.namespace(name)
	if n == nil {
		return false
	}
	_, revision := n.meta.Labels[label.IoIstioRev.Name]
	return n.meta.Labels[injectionLabel] == "enabled" || (revision && n.meta.Labels[injectionLabel] == "")
}

// checkNamespaces reports namespaces without istio-injection, a revision or the ambient mode, or
// with several labels of these. Beside istio-injection with another value than enabled, the other
// labels are not counted. It skips the root namespace and namespaces whose name begins with
// "kube-". If injection is the default, it reports that instead of a missing label.
func (r *analysisRun) checkNamespaces() {
	for _, o := range r.ofKind(api.Namespace) {
		if o.key.Name == r.snapshot.Settings.RootNamespace || strings.HasPrefix(o.key.Name, "kube-") {
			continue
		}
		value, set := o.meta.Labels[injectionLabel]
		var found []string
		if set {
			found = append(found, injectionLabel+"="+value)
		}
		for _, l := range []string{label.IoIstioRev.Name, label.IoIstioDataplaneMode.Name} {
			if v, ok := o.meta.Labels[l]; ok && (!set || value == "enabled") {
				found = append(found, l+"="+v)
			}
		}
		if len(found) > 1 {
			r.report(
				code.NamespaceMultipleInjectionLabels,
				o,
				"metadata.labels",
				"has the labels %s",
				strings.Join(found, ", "),
			)
		}
		revision, hasRevision := o.meta.Labels[label.IoIstioRev.Name]
		if value != "" || hasRevision || o.meta.Labels[label.IoIstioDataplaneMode.Name] == "ambient" {
			continue
		}
		if v := r.injector(revision); v != nil && v.Webhook.NamespacesByDefault {
			r.report(
				code.NamespaceInjectionEnabledByDefault,
				o,
				"metadata.labels",
				"has no label for injection; pods are injected by default",
			)
		} else {
			r.report(code.NamespaceNotInjected, o, "metadata.labels",
				"has no label for injection, so its pods have no sidecar")
		}
	}
}

// checkSidecarContainers reports pods without a proxy in a namespace with the label
// istio-injection=enabled. It also reports each namespace with injection that has pods of another
// proxy image than the known injector uses, once. Pods in the host's network or with injection
// disabled may lack a proxy. The images auto, and images of pods with an annotation for the image,
// are not compared.
func (r *analysisRun) checkSidecarContainers() {
	outdated := map[string][]string{}
	for _, o := range r.ofKind(api.Pod) {
		if !r.isInjected(o.key.Namespace) {
			continue
		}
		pod := podOf(o)
		image := ""
		for _, c := range slices.Concat(pod.Spec.Containers, pod.Spec.InitContainers) {
			if c.Name == proxyContainer {
				image = c.Image
			}
		}
		inject := o.meta.Annotations[annotation.SidecarInject.Name]
		if v, ok := o.meta.Labels[label.SidecarInject.Name]; ok {
			inject = v
		}
		namespace := r.namespace(o.key.Namespace)
		switch {
		case image == "" && !pod.Spec.HostNetwork && !strings.EqualFold(inject, "false") &&
			namespace.meta.Labels[injectionLabel] == "enabled":
			r.report(
				code.PodMissingProxy,
				o,
				"spec.containers",
				"has no container %s, although its namespace has injection",
				proxyContainer,
			)
		case image != "" && image != "auto" && o.meta.Annotations[annotation.SidecarProxyImage.Name] == "":
			v := r.injector(namespace.meta.Labels[label.IoIstioRev.Name])
			if v != nil && image != v.image() && image != v.image()+"-"+r.imageType(pod) {
				outdated[o.key.Namespace] = append(outdated[o.key.Namespace], o.key.Name)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(outdated)) {
		r.report(code.PodsIstioProxyImageMismatchInNamespace, r.namespace(name), "",
			"pods %s run another proxy image than injection uses now", strings.Join(outdated[name], ", "))
	}
}

// imageType returns the variant of the proxy image of a pod. Its annotation precedes the most
// specific ProxyConfig that names a variant, and this precedes the mesh, whose variant may be "". A
// ProxyConfig that selects the pod is the most specific. Next are ones without a selector, of the
// pod's namespace and then of the root namespace. Of equal ones it is the first.
func (r *analysisRun) imageType(pod *corev1.Pod) string {
	var own struct {
		Image struct {
			ImageType string `json:"imageType"`
		} `json:"image"`
	}
	if text := pod.Annotations[annotation.ProxyConfig.Name]; text != "" && unmarshalYAML(text, &own) &&
		own.Image.ImageType != "" {
		return own.Image.ImageType
	}
	found, rank := r.snapshot.Settings.Mesh.GetDefaultConfig().GetImage().GetImageType(), 0
	for o, spec := range specsOf[*networking.ProxyConfig](r, api.ProxyConfig) {
		own := 0
		switch selector := spec.GetSelector().GetMatchLabels(); {
		case spec.GetImage().GetImageType() == "":
		case o.key.Namespace == pod.Namespace && len(selector) > 0 && snapshot.SelectorMatches(selector, pod.Labels):
			own = 3
		case o.key.Namespace == pod.Namespace && len(selector) == 0:
			own = 2
		case o.key.Namespace == r.snapshot.Settings.RootNamespace && len(selector) == 0:
			own = 1
		}
		if own > rank {
			found, rank = spec.GetImage().GetImageType(), own
		}
	}
	return found
}

// checkAutoImages reports pods in which the container proxyContainer has the image "auto", which
// injection would have replaced. It also reports Deployments with it whose pods no injection
// webhook selects.
func (r *analysisRun) checkAutoImages() {
	for _, o := range r.ofKind(api.Pod, deployment) {
		spec, podLabels, field := podSpec(o)
		i := slices.IndexFunc(
			spec.Containers,
			func(c corev1.Container) bool { return c.Name == proxyContainer && c.Image == "auto" },
		)
		if i < 0 {
			continue
		}
		field = fmt.Sprintf("%s.containers[%d].image", field, i)
		if o.key.Kind == api.Pod {
			r.report(code.ImageAutoWithoutInjectionError, o, field, "is auto in a pod: it was not injected")
			continue
		}
		if n := r.namespace(o.key.Namespace); !r.webhooksSelect(n, podLabels) {
			r.report(
				code.ImageAutoWithoutInjectionWarning,
				o,
				field,
				"is auto, and no injection webhook selects the pods",
			)
		}
	}
}

// webhooksSelect reports whether an injection webhook of Istio selects pods with the labels in a
// namespace. A nil namespace has no labels. Webhooks of Istio are those whose name ends in
// istio.io.
func (r *analysisRun) webhooksSelect(namespace *object, podLabels map[string]string) bool {
	var namespaceLabels map[string]string
	if namespace != nil {
		namespaceLabels = namespace.meta.Labels
	}
	for _, o := range r.ofKind(mutatingWebhook) {
		for _, w := range decodeAs[admissionv1.MutatingWebhookConfiguration](o).Webhooks {
			if strings.HasSuffix(w.Name, "istio.io") && selects(w.NamespaceSelector, namespaceLabels) &&
				selects(w.ObjectSelector, podLabels) {
				return true
			}
		}
	}
	return false
}

// selects reports whether a selector matches labels. A nil selector matches all, an invalid one
// none.
func selects(s *metav1.LabelSelector, set map[string]string) bool {
	if s == nil {
		return true
	}
	selector, err := metav1.LabelSelectorAsSelector(s)
	return err == nil && selector.Matches(labels.Set(set))
}

package revision

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"istio.io/api/label"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

const (
	// injectorLabel selects the configurations of injection webhooks.
	injectorLabel = "app=sidecar-injector"
	// injectorSuffix ends the names of injection webhooks.
	injectorSuffix = "sidecar-injector.istio.io"
	// DefaultRevision is the revision without a name, and the tag for namespaces with
	// istio-injection=enabled.
	DefaultRevision = "default"
	// injectionLabel is the label of namespaces for DefaultRevision.
	injectionLabel = "istio-injection"
)

// Configuration is the webhook configuration of a revision or of a tag.
type Configuration struct {
	// Name is that of the object.
	Name     string `json:"name"`
	Revision string `json:"revision"`
	// Tag is empty for the configuration of the revision itself.
	Tag string `json:"tag,omitempty"`

	object admissionv1.MutatingWebhookConfiguration
}

// names returns the value of the label istio.io/rev that selects the configuration: its tag, or
// else its revision.
func (c *Configuration) names() string { return cmp.Or(c.Tag, c.Revision) }

// List returns the configurations of injection webhooks, which have injectorLabel, sorted by
// revision, tag and name. A configuration without a revision has that of DefaultRevision. The list
// is not nil unless there is an error.
func List(ctx context.Context, client kubernetes.Interface) ([]Configuration, error) {
	found, err := client.AdmissionregistrationV1().MutatingWebhookConfigurations().List(ctx,
		metav1.ListOptions{LabelSelector: injectorLabel})
	if err != nil {
		return nil, fmt.Errorf("list the injection webhooks: %w", err)
	}
	list := []Configuration{}
	for i := range found.Items {
		o := &found.Items[i]
		list = append(list, Configuration{
			Name: o.Name, Revision: cmp.Or(o.Labels[label.IoIstioRev.Name], DefaultRevision),
			Tag: o.Labels[label.IoIstioTag.Name], object: *o,
		})
	}
	slices.SortFunc(list, func(a, b Configuration) int {
		return cmp.Or(cmp.Compare(a.Revision, b.Revision), cmp.Compare(a.Tag, b.Tag), cmp.Compare(a.Name, b.Name))
	})
	return list, nil
}

// Namespaces returns the names of the namespaces whose labels select a revision or tag, sorted. A
// namespace with the label istio-injection is only selected by the default revision, if its value
// is enabled. The result is never nil.
func Namespaces(list []corev1.Namespace, name string) []string {
	names := []string{}
	for i := range list {
		rev, hasRev := list[i].Labels[label.IoIstioRev.Name]
		injection := list[i].Labels[injectionLabel]
		if hasRev && rev == name && injection == "" || name == DefaultRevision && injection == "enabled" {
			names = append(names, list[i].Name)
		}
	}
	slices.Sort(names)
	return names
}

// Verdict is whether the webhooks of a configuration inject a pod.
type Verdict struct {
	Configuration
	Injected bool   `json:"injected"`
	Reason   string `json:"reason"`
}

// Check returns a verdict for each configuration on a pod, in their order. namespace and pod are
// the labels of the pod's namespace and of the pod. No configuration injects a pod with
// hostNetwork. It stops and returns an error if a webhook's selector is malformed.
func Check(list []Configuration, namespace, pod map[string]string, hostNetwork bool) ([]Verdict, error) {
	var verdicts []Verdict
	for i := range list {
		c := &list[i]
		v := Verdict{Configuration: *c}
		name, err := c.matchingWebhook(namespace, pod)
		switch {
		case err != nil:
			return nil, err
		case name != "" && hostNetwork:
			v.Reason = "the pod uses the network of its node (hostNetwork)"
		case name != "":
			v.Injected, v.Reason = true, matchReason(name, c.names(), namespace, pod)
		default:
			v.Reason = mismatchReason(c, namespace, pod)
		}
		verdicts = append(verdicts, v)
	}
	return verdicts, nil
}

// matchingWebhook returns the name of the first injection webhook whose selectors match the labels,
// or "". It returns an error for a malformed selector. Webhooks whose names do not end with
// injectorSuffix are skipped.
func (c *Configuration) matchingWebhook(namespace, pod map[string]string) (string, error) {
	for i := range c.object.Webhooks {
		w := &c.object.Webhooks[i]
		if !strings.HasSuffix(w.Name, injectorSuffix) {
			continue
		}
		byNamespace, err := selects(w.NamespaceSelector, namespace)
		if err != nil {
			return "", fmt.Errorf("%s: webhook %s: namespaceSelector: %w", c.Name, w.Name, err)
		}
		byPod, err := selects(w.ObjectSelector, pod)
		if err != nil {
			return "", fmt.Errorf("%s: webhook %s: objectSelector: %w", c.Name, w.Name, err)
		}
		if byNamespace && byPod {
			return w.Name, nil
		}
	}
	return "", nil
}

// matchReason returns the label because of which a webhook injects. name is the revision or tag. It
// returns the webhook's name if no usual label selects it. Labels of the namespace precede labels
// of the pod.
func matchReason(webhook, name string, namespace, pod map[string]string) string {
	rev, inject := label.IoIstioRev.Name, label.SidecarInject.Name
	switch {
	case namespace[injectionLabel] == "enabled":
		return "namespace label " + injectionLabel + "=enabled"
	case namespace[rev] == name:
		return "namespace label " + rev + "=" + name
	case pod[rev] == name:
		return "pod label " + rev + "=" + name
	case pod[inject] == "true":
		return "pod label " + inject + "=true"
	default:
		return "webhook " + webhook + " selects it"
	}
}

// mismatchReason returns the first label that prevents injection by c: a label that disables it, or
// that selects the default or another revision. Without such a label it returns the labels that
// would cause injection.
func mismatchReason(c *Configuration, namespace, pod map[string]string) string {
	rev, inject := label.IoIstioRev.Name, label.SidecarInject.Name
	switch {
	case pod[inject] == "false":
		return "pod label " + inject + "=false"
	case namespace[injectionLabel] != "" && namespace[injectionLabel] != "enabled":
		return "namespace label " + injectionLabel + "=" + namespace[injectionLabel]
	case namespace[injectionLabel] == "enabled":
		return "namespace label " + injectionLabel + "=enabled selects the default revision"
	case namespace[rev] != "":
		return "namespace label " + rev + "=" + namespace[rev] + " selects another revision"
	case pod[rev] != "":
		return "pod label " + rev + "=" + pod[rev] + " selects another revision"
	}
	text := "neither the namespace nor the pod has the label " + rev + "=" + c.names()
	if c.names() == DefaultRevision {
		text = "no label " + injectionLabel + "=enabled or " + rev + "=" + DefaultRevision + " at the namespace, nor " +
			inject + "=true at the pod"
	}
	return text
}

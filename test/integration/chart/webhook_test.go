package chart

import (
	"maps"
	"slices"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
)

// TestUpgradeKeepsFailurePolicy: validation fails open when it is installed. An upgrade does not name
// a failurePolicy, so the one stays that the control plane has set.
func TestUpgradeKeepsFailurePolicy(t *testing.T) {
	h := newHelm(t, "")
	for _, which := range []string{"base", "istiod"} {
		for _, c := range []struct{ upgrade, value, want string }{
			{"", "", "Ignore"},
			{"--is-upgrade", "", ""},
			{"--is-upgrade", "base.validationFailurePolicy=Ignore", "Ignore"},
			{"--is-upgrade", "base.validationCABundle=YQ==", "Fail"},
			{"", "base.validationCABundle=YQ==", "Fail"},
		} {
			args := []string{"template", "x", chart(which), "-n", "istio-system"}
			if c.upgrade != "" {
				args = append(args, c.upgrade)
			}
			if c.value != "" {
				args = append(args, "--set", c.value)
			}
			got := map[string]bool{}
			for _, o := range objects(t, h.run(t, args...)) {
				var v admissionregistrationv1.ValidatingWebhookConfiguration
				if o.GetKind() != "ValidatingWebhookConfiguration" {
					continue
				}
				if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &v); err != nil {
					t.Fatal(err)
				}
				for _, w := range v.Webhooks {
					if w.FailurePolicy == nil {
						w.FailurePolicy = new(admissionregistrationv1.FailurePolicyType)
					}
					got[string(*w.FailurePolicy)] = true
				}
			}
			if policies := slices.Sorted(maps.Keys(got)); len(policies) != 1 || policies[0] != c.want {
				t.Errorf("%s, %s %s: failurePolicy %q, want %q", which, c.upgrade, c.value, policies, c.want)
			}
		}
	}
}

// TestOneInjectorSelectsAPod: at most one webhook selects a pod, whatever its labels and those of its
// namespace are, and with enableNamespacesByDefault one selects each pod that does not refuse.
func TestOneInjectorSelectsAPod(t *testing.T) {
	h := newHelm(t, "")
	sets := func(values map[string][]string) []labels.Set {
		list := []labels.Set{{}}
		for _, key := range slices.Sorted(maps.Keys(values)) {
			for _, set := range slices.Clone(list) {
				for _, value := range values[key] {
					list = append(list, labels.Merge(set, labels.Set{key: value}))
				}
			}
		}
		return list
	}
	namespaces := sets(map[string][]string{"istio-injection": {"enabled", "disabled"}, "istio.io/rev": {"default", "other"}})
	pods := sets(map[string][]string{
		"sidecar.istio.io/inject": {"true", "false"}, "istio.io/rev": {"default", "other"}, "gateway.istio.io/managed": {"x"},
	})
	for _, byDefault := range []string{"false", "true"} {
		set := "sidecarInjectorWebhook.enableNamespacesByDefault=" + byDefault
		list := injectors(t, h.run(t, "template", "x", chart("istiod"), "-n", "istio-system", "--set", set))
		for _, namespace := range namespaces {
			for _, pod := range pods {
				var selected []string
				for _, w := range list {
					if isSelected(t, w.NamespaceSelector, namespace) && isSelected(t, w.ObjectSelector, pod) {
						selected = append(selected, w.Name)
					}
				}
				if len(selected) > 1 {
					t.Errorf("%s: the pod %v of a namespace %v is selected by %s", set, pod, namespace, strings.Join(selected, ", "))
				}
				if len(pod)+len(namespace) == 0 && (len(selected) == 1) != (byDefault == "true") {
					t.Errorf("%s: a pod without labels is selected by %v", set, selected)
				}
			}
		}
	}
}

// injectors returns the webhooks of all MutatingWebhookConfigurations in a manifest.
func injectors(t *testing.T, text string) []admissionregistrationv1.MutatingWebhook {
	t.Helper()
	var list []admissionregistrationv1.MutatingWebhook
	for _, o := range objects(t, text) {
		if o.GetKind() != "MutatingWebhookConfiguration" {
			continue
		}
		var m admissionregistrationv1.MutatingWebhookConfiguration
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &m); err != nil {
			t.Fatal(err)
		}
		list = append(list, m.Webhooks...)
	}
	if len(list) == 0 {
		t.Fatal("the chart has no injectors")
	}
	return list
}

func isSelected(t *testing.T, s *metav1.LabelSelector, set labels.Set) bool {
	t.Helper()
	selector, err := metav1.LabelSelectorAsSelector(s)
	if err != nil {
		t.Fatal(err)
	}
	return selector.Matches(set)
}

package config

import (
	"fmt"
	"slices"
	"strings"

	"istio.io/api/type/v1beta1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// labelFault says why key and value are not a label by the rules of Kubernetes.
func labelFault(key, value string) string {
	if reasons := validation.IsQualifiedName(key); len(reasons) > 0 {
		return fmt.Sprintf("%q is not a label key: %s", key, withoutExample(reasons[0]))
	}
	if reasons := validation.IsValidLabelValue(value); len(reasons) > 0 {
		return fmt.Sprintf("%q is not a label value: %s", value, withoutExample(reasons[0]))
	}
	return ""
}

// withoutExample shortens a reason of Kubernetes, which ends with examples and a regular expression.
func withoutExample(reason string) string {
	reason, _, _ = strings.Cut(reason, " (e.g.")
	return reason
}

// labels checks labels that an object gives to something.
func (r *report) labels(at path, labels map[string]string) {
	for _, key := range sortedKeys(labels) {
		r.fault(at.Key(key), labelFault(key, labels[key]))
	}
}

// matchLabels checks labels that select workloads. there says that the selector was written at all: without labels it
// then selects every workload, which is seldom what was meant.
func (r *report) matchLabels(at path, labels map[string]string, there bool) {
	if there && len(labels) == 0 {
		r.warnf(at, "the selector has no labels and selects all workloads")
	}
	for _, key := range sortedKeys(labels) {
		value := labels[key]
		switch {
		case key == "":
			r.errorf(at.Key(key), "the empty key is not allowed in a selector")
		case strings.Contains(key, "*") || strings.Contains(value, "*"):
			r.errorf(at.Key(key), "wildcards are not supported in a selector")
		default:
			r.unmatchable(at.Key(key), key, value)
		}
	}
}

// unmatchable warns of a label in a selector that no workload can have.
func (r *report) unmatchable(at path, key, value string) {
	if fault := labelFault(key, value); fault != "" {
		r.warnf(at, "no workload can be selected: %s", fault)
	}
}

// attachment is what a policy says about where it applies: at most one of the three.
type attachment struct {
	selector   *v1beta1.WorkloadSelector
	targetRef  *v1beta1.PolicyTargetReference
	targetRefs []*v1beta1.PolicyTargetReference
}

// attachedTo checks the selector and target references of a policy whose spec is at.
func (r *report) attachedTo(at path, a attachment) {
	r.matchLabels(at.Child("selector", "matchLabels"), a.selector.GetMatchLabels(), a.selector != nil)
	ways := 0
	for _, there := range []bool{a.selector != nil, a.targetRef != nil, len(a.targetRefs) > 0} {
		if there {
			ways++
		}
	}
	if ways > 1 {
		r.errorf(at, "only one of selector, targetRef and targetRefs may be set")
	}
	if a.targetRef != nil {
		r.targetRef(at.Child("targetRef"), a.targetRef)
	}
	r.targetRefs(at.Child("targetRefs"), a.targetRefs)
}

func (r *report) targetRefs(at path, refs []*v1beta1.PolicyTargetReference) {
	r.maxItems(at, len(refs), 16)
	for i, ref := range refs {
		r.targetRef(at.Index(i), ref)
	}
}

// targetRef checks a reference to what a policy is attached to, which must be of one of the kinds that policies know.
func (r *report) targetRef(at path, ref *v1beta1.PolicyTargetReference) {
	r.required(at.Child("name"), ref.GetName())
	if ref.GetNamespace() != "" {
		r.errorf(at.Child("namespace"), "must not be set: references to other namespaces are not supported")
	}
	kinds := []string{
		"/Service", "core/Service", "networking.istio.io/ServiceEntry",
		"gateway.networking.k8s.io/Gateway", "gateway.networking.k8s.io/GatewayClass",
	}
	if kind := ref.GetGroup() + "/" + ref.GetKind(); !slices.Contains(kinds, kind) {
		r.errorf(at.Child("kind"), "kind %q of group %q cannot be a target, only Service, ServiceEntry (networking.istio.io), "+
			"Gateway and GatewayClass (gateway.networking.k8s.io)", ref.GetKind(), ref.GetGroup())
	}
}

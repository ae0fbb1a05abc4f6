package config

import (
	"fmt"
	"slices"
	"strings"

	"istio.io/api/type/v1beta1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// labelFault returns why key or value is invalid in a Kubernetes label, or "" if both are valid.
// The key's fault comes first. An empty value is valid, an empty key is not.
func labelFault(key, value string) string {
	prefix, name, hasPrefix := strings.Cut(key, "/")
	if !hasPrefix {
		prefix, name = "", key
	}
	if isLabelText(name) && (!hasPrefix || isPlain(prefix)) && (value == "" || isLabelText(value)) {
		return "" // without the regular expressions of Kubernetes' validation
	}
	if reasons := validation.IsQualifiedName(key); len(reasons) > 0 {
		return fmt.Sprintf("%q is not a label key: %s", key, withoutExample(reasons[0]))
	}
	if reasons := validation.IsValidLabelValue(value); len(reasons) > 0 {
		return fmt.Sprintf("%q is not a label value: %s", value, withoutExample(reasons[0]))
	}
	return ""
}

// isLabelText reports whether a text is a valid label key without a prefix, or a label value that is
// not empty: 1 to 63 letters, digits, hyphens, dots and underscores, with a letter or digit at both
// ends.
func isLabelText(text string) bool {
	if text == "" || len(text) > 63 || !isAlphanumeric(text[0]) || !isAlphanumeric(text[len(text)-1]) {
		return false
	}
	for i := range len(text) {
		if c := text[i]; !isAlphanumeric(c) && c != '-' && c != '.' && c != '_' {
			return false
		}
	}
	return true
}

// isPlain reports whether a text consists of 1 to 63 lower-case letters, digits, hyphens and dots,
// with a letter or digit at both ends. A dot must stand between two letters or digits. Such a text
// is a valid prefix of a label key and name of an object. Nearly all texts pass, without the regular
// expressions of Kubernetes' validation.
func isPlain(text string) bool {
	if text == "" || len(text) > 63 {
		return false
	}
	separated := true // before the text, or after a hyphen or dot
	for i := range len(text) {
		switch c := text[i]; {
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9':
			separated = false
		case c == '-' && i > 0 && text[i-1] != '.':
			separated = true
		case c == '.' && !separated:
			separated = true
		default:
			return false
		}
	}
	return !separated
}

// withoutExample returns a reason of Kubernetes without the examples and the regular expression at
// its end.
func withoutExample(reason string) string {
	reason, _, _ = strings.Cut(reason, " (e.g.")
	return reason
}

// checkLabels adds an Error for each label that is not a valid Kubernetes label.
func (r *report) checkLabels(at path, labels map[string]string) {
	for _, key := range sortedKeys(labels) {
		r.addFault(at.Key(key), labelFault(key, labels[key]))
	}
}

// checkMatchLabels checks labels that select workloads. Empty keys and wildcards are Errors, labels
// that no workload can have are Warnings. there is set if the selector is present; if it has no
// labels, that is a Warning, because it selects every workload, which is rarely intended.
func (r *report) checkMatchLabels(at path, labels map[string]string, there bool) {
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
			r.checkMatchable(at.Key(key), key, value)
		}
	}
}

// checkMatchable adds a Warning if key and value are not a valid label, so that no workload can
// have it.
func (r *report) checkMatchable(at path, key, value string) {
	if fault := labelFault(key, value); fault != "" {
		r.warnf(at, "no workload can be selected: %s", fault)
	}
}

// attachment contains the fields that select where a policy applies. At most one of them may be
// set.
type attachment struct {
	selector   *v1beta1.WorkloadSelector
	targetRef  *v1beta1.PolicyTargetReference
	targetRefs []*v1beta1.PolicyTargetReference
}

// checkAttachment adds Errors for invalid target references of a policy (checkTargetRef,
// checkTargetRefs), and if more than one of selector, targetRef and targetRefs is set. It checks
// the selector's labels with checkMatchLabels, which also adds Warnings. at is the path of the
// policy's spec.
func (r *report) checkAttachment(at path, a attachment) {
	r.checkMatchLabels(at.Child("selector", "matchLabels"), a.selector.GetMatchLabels(), a.selector != nil)
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
		r.checkTargetRef(at.Child("targetRef"), a.targetRef)
	}
	r.checkTargetRefs(at.Child("targetRefs"), a.targetRefs)
}

// checkTargetRefs adds an Error for more than 16 references, and for each invalid one
// (checkTargetRef).
func (r *report) checkTargetRefs(at path, refs []*v1beta1.PolicyTargetReference) {
	r.checkMaxItems(at, len(refs), 16)
	for i, ref := range refs {
		r.checkTargetRef(at.Index(i), ref)
	}
}

// checkTargetRef adds an Error if a policy's target reference has no name, has a namespace, or is
// of a kind to which policies cannot be attached.
func (r *report) checkTargetRef(at path, ref *v1beta1.PolicyTargetReference) {
	r.requireValue(at.Child("name"), ref.GetName())
	if ref.GetNamespace() != "" {
		r.errorf(at.Child("namespace"), "must not be set: references to other namespaces are not supported")
	}
	kinds := []string{
		"/Service", "core/Service", "networking.istio.io/ServiceEntry",
		"gateway.networking.k8s.io/Gateway", "gateway.networking.k8s.io/GatewayClass",
	}
	if kind := ref.GetGroup() + "/" + ref.GetKind(); !slices.Contains(kinds, kind) {
		r.errorf(
			at.Child("kind"),
			"kind %q of group %q cannot be a target, only Service, ServiceEntry (networking.istio.io), "+
				"Gateway and GatewayClass (gateway.networking.k8s.io)",
			ref.GetKind(),
			ref.GetGroup(),
		)
	}
}

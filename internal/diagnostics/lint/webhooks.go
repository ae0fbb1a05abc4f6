package lint

import (
	"fmt"
	"maps"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"istio.io/api/label"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/code"
	"github.com/meshpilot/meshpilot/internal/model/config"
)

// Kinds that the control plane does not read from files.
const (
	mutatingWebhook   api.Kind = "MutatingWebhookConfiguration"
	validatingWebhook api.Kind = "ValidatingWebhookConfiguration"
)

// injectionWebhook is one webhook of an injector.
type injectionWebhook struct {
	object *object
	index  int
	admissionv1.MutatingWebhook
}

// checkWebhooks reports injection webhooks that select the same pods, or refer to a Service that
// does not exist. Webhooks of Istio are those whose name ends in istio.io, or whose configuration
// has a revision.
func (r *analysisRun) checkWebhooks() {
	var list []injectionWebhook
	revisions := map[string]bool{"": true}
	for _, o := range r.ofKind(mutatingWebhook) {
		for i, w := range decodeAs[admissionv1.MutatingWebhookConfiguration](o).Webhooks {
			if !strings.HasSuffix(w.Name, "istio.io") && o.meta.Labels[label.IoIstioRev.Name] == "" {
				continue
			}
			list = append(list, injectionWebhook{o, i, w})
			addRevisions(revisions, w.NamespaceSelector)
			addRevisions(revisions, w.ObjectSelector)
		}
		if revision := o.meta.Labels[label.IoIstioRev.Name]; revision != "" {
			revisions[revision] = true
		}
	}
	r.reportOverlaps(list, slices.Sorted(maps.Keys(revisions)))
	for _, w := range list {
		s := w.ClientConfig.Service
		if s != nil && r.byKey[config.Key{Kind: api.Service, Namespace: s.Namespace, Name: s.Name}] == nil {
			r.report(code.InvalidWebhook, w.object, fmt.Sprintf("webhooks[%d].clientConfig.service", w.index),
				"there is no Service %q in namespace %s", s.Name, s.Namespace)
		}
	}
}

// addRevisions adds to revisions the values that a selector names for the revision label, whatever
// the operator. A nil selector names none.
func addRevisions(revisions map[string]bool, s *metav1.LabelSelector) {
	if s == nil {
		return
	}
	if v, ok := s.MatchLabels[label.IoIstioRev.Name]; ok {
		revisions[v] = true
	}
	for _, e := range s.MatchExpressions {
		if e.Key == label.IoIstioRev.Name {
			for _, v := range e.Values {
				revisions[v] = true
			}
		}
	}
}

// reportOverlaps reports webhooks that select the same pods, for each combination of the labels of
// injection in a namespace and in a pod. Each webhook is reported once, with the names of all
// others.
func (r *analysisRun) reportOverlaps(list []injectionWebhook, revisions []string) {
	overlaps := map[int]map[string]bool{}
	for _, namespaceLabels := range labelCombinations(injectionLabel, []string{"", "enabled", "disabled"}, revisions) {
		for _, podLabels := range labelCombinations(label.SidecarInject.Name, []string{"", "true", "false"},
			revisions) {
			var matching []int
			for i, w := range list {
				if selects(w.NamespaceSelector, namespaceLabels) && selects(w.ObjectSelector, podLabels) {
					matching = append(matching, i)
				}
			}
			for _, i := range matching {
				for _, j := range matching {
					if i != j {
						if overlaps[i] == nil {
							overlaps[i] = map[string]bool{}
						}
						overlaps[i][list[j].object.key.Name+"/"+list[j].Name] = true
					}
				}
			}
		}
	}
	for i, others := range overlaps {
		r.report(
			code.InvalidWebhook,
			list[i].object,
			fmt.Sprintf("webhooks[%d]", list[i].index),
			"selects pods that also %s selects: they may be injected twice",
			strings.Join(slices.Sorted(maps.Keys(others)), ", "),
		)
	}
}

// labelCombinations returns all combinations of a value of the label name with a revision in
// istio.io/rev. The value or revision "" leaves its label out.
func labelCombinations(name string, values, revisions []string) []map[string]string {
	var list []map[string]string
	for _, v := range values {
		for _, revision := range revisions {
			set := map[string]string{}
			if v != "" {
				set[name] = v
			}
			if revision != "" {
				set[label.IoIstioRev.Name] = revision
			}
			list = append(list, set)
		}
	}
	return list
}

// checkExternalControlPlane reports webhooks in Istio's configurations, by their names, without an
// address, with an invalid one, or with an IP address (checkWebhookAddress).
func (r *analysisRun) checkExternalControlPlane() {
	for _, o := range r.ofKind(mutatingWebhook, validatingWebhook) {
		if !strings.HasPrefix(o.key.Name, injectorName) && !strings.HasPrefix(o.key.Name, "istio-validator") &&
			o.key.Name != "istiod-default-validator" {
			continue
		}
		hooks := decodeAs[struct {
			Webhooks []struct {
				ClientConfig admissionv1.WebhookClientConfig `json:"clientConfig"`
			} `json:"webhooks"`
		}](o)
		for i, w := range hooks.Webhooks {
			r.checkWebhookAddress(o, fmt.Sprintf("webhooks[%d].clientConfig", i), w.ClientConfig)
		}
	}
}

// checkWebhookAddress reports a webhook without a URL and Service, or with a URL that is malformed
// or has an IP address as its host. field is the path of c in o. The Service need not exist.
func (r *analysisRun) checkWebhookAddress(o *object, field string, c admissionv1.WebhookClientConfig) {
	switch {
	case c.URL == nil && c.Service == nil:
		r.report(code.InvalidExternalControlPlaneConfig, o, field, "has neither a url nor a service")
	case c.URL != nil:
		u, err := url.Parse(*c.URL)
		if err != nil || u.Hostname() == "" {
			r.report(code.InvalidExternalControlPlaneConfig, o, field+".url", "%q is not a URL with a host", *c.URL)
			return
		}
		if _, err := netip.ParseAddr(u.Hostname()); err == nil {
			r.report(
				code.ExternalControlPlaneAddressIsNotAHostname,
				o,
				field+".url",
				"%s is an IP address",
				u.Hostname(),
			)
		}
	}
}

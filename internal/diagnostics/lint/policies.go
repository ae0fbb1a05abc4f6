package lint

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/yaml"

	"istio.io/api/label"
	meshconfig "istio.io/api/mesh/v1alpha1"
	networking "istio.io/api/networking/v1alpha3"
	security "istio.io/api/security/v1beta1"
	telemetry "istio.io/api/telemetry/v1alpha1"
	typev1beta1 "istio.io/api/type/v1beta1"

	"github.com/meshpilot/meshpilot/internal/ingest/static"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/code"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/snapshot"
)

// unmarshalYAML decodes text into v, and reports whether it is valid.
func unmarshalYAML(text string, v any) bool { return yaml.Unmarshal([]byte(text), v) == nil }

// withSelector is a spec that selects workloads.
type withSelector interface {
	GetSelector() *typev1beta1.WorkloadSelector
}

// workloadSelector returns the workloadSelector labels of a Sidecar, or the labels of another
// object's spec.selector. It returns nil for other kinds, such as EnvoyFilter, and for an object
// that could not be read. The result may be empty, too.
func workloadSelector(o *object) map[string]string {
	if o.config == nil {
		return nil
	}
	switch spec := o.config.Spec.(type) {
	case *networking.Sidecar:
		return spec.GetWorkloadSelector().GetLabels()
	case withSelector:
		return spec.GetSelector().GetMatchLabels()
	}
	return nil
}

// podsIn returns the Pods of a namespace, without the templates of other objects.
func (r *analysisRun) podsIn(namespace string) []*object {
	return slices.DeleteFunc(r.ofKind(api.Pod), func(o *object) bool { return o.key.Namespace != namespace })
}

// checkSelectors reports Sidecars and Telemetries whose selector matches no pod, or a pod that an
// earlier object of the kind selects too. It also reports an object without a selector beside an
// earlier one without. Only pods and objects of its namespace are compared. Without any known pod,
// unmatched selectors are not reported.
func (r *analysisRun) checkSelectors() {
	for _, x := range []struct {
		kind              api.Kind
		field             string
		overlap, multiple code.Code
		effect            string // of an overlap
	}{
		{api.Sidecar, "spec.workloadSelector", code.ConflictingSidecarWorkloadSelectors,
			code.MultipleSidecarsWithoutWorkloadSelectors, "only the older one applies to them"},
		{api.Telemetry, "spec.selector", code.ConflictingTelemetryWorkloadSelectors,
			code.MultipleTelemetriesWithoutWorkloadSelectors,
			"both apply to them, and the newer one overrides fields of the older one"},
	} {
		list := r.ofKind(x.kind)
		for i, o := range list {
			if o.config == nil {
				continue
			}
			selector := workloadSelector(o)
			for _, other := range list[:i] {
				if other.config == nil || other.key.Namespace != o.key.Namespace {
					continue
				}
				second := workloadSelector(other)
				p := config.Problem{Key: o.key, Origin: o.origin(), Field: x.field, Severity: config.Warning,
					Conflict: other.key}
				switch {
				case len(selector) == 0 && len(second) == 0:
					p.Code, p.Reason = x.multiple, fmt.Sprintf("is empty, and also in %s %s: only the older one is used", x.kind, other.key.Name)
				case len(selector) > 0 && len(second) > 0 && slices.ContainsFunc(r.podsIn(o.key.Namespace), func(pod *object) bool {
					return snapshot.SelectorMatches(selector, pod.meta.Labels) &&
						snapshot.SelectorMatches(second, pod.meta.Labels)
				}):
					p.Code = x.overlap
					p.Reason = fmt.Sprintf("matches pods that %s %s selects too: %s", x.kind, other.key.Name, x.effect)
				default:
					continue
				}
				r.addProblem(p)
			}
			matches := func(pod *object) bool { return snapshot.SelectorMatches(selector, pod.meta.Labels) }
			if len(selector) > 0 && len(r.ofKind(api.Pod)) > 0 &&
				!slices.ContainsFunc(r.podsIn(o.key.Namespace), matches) {
				r.report(code.ReferencedResourceNotFound, o, x.field, "no pod of the namespace has the labels %s",
					snapshot.SelectorText(selector))
			}
		}
	}
}

// checkAmbient reports Sidecars in namespaces of the ambient mode without injection, whose pods
// have no sidecars. Unknown namespaces are skipped.
func (r *analysisRun) checkAmbient() {
	for _, o := range r.ofKind(api.Sidecar) {
		if n := r.namespace(o.key.Namespace); n != nil && n.meta.Labels[label.IoIstioDataplaneMode.Name] == "ambient" &&
			!r.isInjected(o.key.Namespace) {
			r.report(code.IneffectivePolicy, o, "",
				"has no effect in a namespace of the ambient mode, whose pods have no sidecars")
		}
	}
}

// checkGatewaySelectors reports RequestAuthentications, AuthorizationPolicies, Telemetries and
// WasmPlugins whose selector matches pods of a Gateway of the Gateway API in their namespace, once
// for each pod. Such proxies are selected with targetRefs. It skips objects with targetRefs or
// without selector labels.
func (r *analysisRun) checkGatewaySelectors() {
	for _, o := range r.ofKind(api.RequestAuthentication, api.AuthorizationPolicy, api.Telemetry, api.WasmPlugin) {
		selector := workloadSelector(o)
		if len(selector) == 0 || hasTargets(o) {
			continue
		}
		for _, pod := range r.podsIn(o.key.Namespace) {
			if name, ok := pod.meta.Labels[label.IoK8sNetworkingGatewayGatewayName.Name]; ok &&
				snapshot.SelectorMatches(selector, pod.meta.Labels) {
				r.report(code.IneffectiveSelector, o, "spec.selector",
					"matches the proxies of Gateway %q of the Gateway API; use targetRefs", name)
			}
		}
	}
}

// hasTargets reports whether an object of any kind has a targetRef or targetRefs.
func hasTargets(o *object) bool {
	for range snapshot.TargetRefs(o.config) {
		return true
	}
	return false
}

// checkProviders reports access logs of Telemetries without a provider of their own or of the mesh,
// and tracing by a provider that is deprecated. Disabled access logs need no provider. Only
// lightstep is deprecated. Unknown names of providers are not reported.
func (r *analysisRun) checkProviders() {
	m := r.snapshot.Settings.Mesh
	deprecated := map[string]bool{}
	for _, p := range m.GetExtensionProviders() {
		if _, ok := p.GetProvider().(*meshconfig.MeshConfig_ExtensionProvider_Lightstep); ok {
			deprecated[p.GetName()] = true
		}
	}
	for o, spec := range specsOf[*telemetry.Telemetry](r, api.Telemetry) {
		for i, l := range spec.GetAccessLogging() {
			if len(m.GetDefaultProviders().GetAccessLogging()) == 0 && len(l.GetProviders()) == 0 &&
				!l.GetDisabled().GetValue() {
				r.report(code.InvalidTelemetryProvider, o, fmt.Sprintf("spec.accessLogging[%d]", i),
					"names no provider, and the mesh has no default")
			}
		}
		for i, t := range spec.GetTracing() {
			for j, p := range t.GetProviders() {
				if deprecated[p.GetName()] {
					r.report(code.Deprecated, o, fmt.Sprintf("spec.tracing[%d].providers[%d]", i, j),
						"the provider lightstep is deprecated; use opentelemetry")
				}
			}
		}
	}
}

// checkKeyAddresses reports a control plane that fetches keys from any address that users write. It
// is a Deployment with the name or the label app istiod in which no container sets
// BLOCKED_CIDRS_IN_JWKS_URIS. It does nothing if no RequestAuthentication has keys to fetch.
func (r *analysisRun) checkKeyAddresses() {
	var names []string
	for o, spec := range specsOf[*security.RequestAuthentication](r, api.RequestAuthentication) {
		if slices.ContainsFunc(spec.GetJwtRules(),
			func(j *security.JWTRule) bool { return j.GetJwksUri() != "" || j.GetJwks() == "" }) {
			names = append(names, o.key.Namespace+"/"+o.key.Name)
		}
	}
	if len(names) == 0 {
		return
	}
	for _, o := range r.ofKind(deployment) {
		if o.meta.Labels["app"] != "istiod" && o.key.Name != "istiod" {
			continue
		}
		restricted := false
		for _, c := range decodeAs[appsv1.Deployment](o).Spec.Template.Spec.Containers {
			for _, e := range c.Env {
				restricted = restricted || (e.Name == "BLOCKED_CIDRS_IN_JWKS_URIS" &&
					(e.Value != "" || e.ValueFrom != nil))
			}
		}
		if !restricted {
			r.report(code.JwksUriFetchUnrestricted, o, "spec.template.spec.containers",
				"BLOCKED_CIDRS_IN_JWKS_URIS is not set, and keys are fetched for %s",
				strings.Join(names, ", "))
		}
	}
}

// checkPolicyNamespaces reports namespaces that AuthorizationPolicies name in sources and that do
// not exist. It also reports policies without a selector in namespaces without pods, unless no pod
// is known at all. The root namespace, and policies with targetRefs, are exempt from that. It does
// nothing if no Namespace is known.
func (r *analysisRun) checkPolicyNamespaces() {
	if len(r.ofKind(api.Namespace)) == 0 {
		return
	}
	for o, spec := range specsOf[*security.AuthorizationPolicy](r, api.AuthorizationPolicy) {
		if len(spec.GetSelector().GetMatchLabels()) == 0 && !hasTargets(o) &&
			o.key.Namespace != r.snapshot.Settings.RootNamespace &&
			len(r.ofKind(api.Pod)) > 0 && !r.hasPods(o.key.Namespace) {
			r.report(code.NoMatchingWorkloadsFound, o, "metadata.namespace",
				"there is no pod in the namespace, to which the policy applies")
		}
		for i, rule := range spec.GetRules() {
			for j, from := range rule.GetFrom() {
				for part, list := range map[string][]string{"namespaces": from.GetSource().GetNamespaces(),
					"notNamespaces": from.GetSource().GetNotNamespaces()} {
					for k, name := range list {
						if !r.hasNamespace(name) {
							field := fmt.Sprintf("spec.rules[%d].from[%d].source.%s[%d]", i, j, part, k)
							r.report(code.ReferencedResourceNotFound, o, field, "there is no namespace %q", name)
						}
					}
				}
			}
		}
	}
}

// hasPods reports whether a namespace has pods, or templates of pods.
func (r *analysisRun) hasPods(namespace string) bool {
	return len(r.podsIn(namespace)) > 0 ||
		slices.ContainsFunc(r.templates, func(c *config.Config) bool { return c.Namespace == namespace })
}

// hasNamespace reports whether a known namespace matches pattern: exactly, or by prefix or suffix
// if the pattern has a "*" at its end or beginning.
func (r *analysisRun) hasNamespace(pattern string) bool {
	return slices.ContainsFunc(r.ofKind(api.Namespace), func(o *object) bool {
		prefix, isPrefix := strings.CutSuffix(pattern, "*")
		suffix, isSuffix := strings.CutPrefix(pattern, "*")
		return o.key.Name == pattern || (isPrefix && strings.HasPrefix(o.key.Name, prefix)) ||
			(isSuffix && strings.HasSuffix(o.key.Name, suffix))
	})
}

// checkRegistries reports registries in MeshNetworks that are neither the local cluster nor a
// cluster of a remote Secret. The keys of a remote Secret name clusters.
func (r *analysisRun) checkRegistries() {
	known := map[string]bool{static.Cluster: true}
	for _, o := range r.ofKind(api.Secret) {
		if o.meta.Labels["istio/multiCluster"] == "true" {
			secret := decodeAs[struct {
				Data       map[string]string `json:"data"`
				StringData map[string]string `json:"stringData"`
			}](o)
			for name := range secret.Data {
				known[name] = true
			}
			for name := range secret.StringData {
				known[name] = true
			}
		}
	}
	networks := r.snapshot.Settings.Networks.GetNetworks()
	for _, name := range slices.Sorted(maps.Keys(networks)) {
		for i, e := range networks[name].GetEndpoints() {
			if registry := e.GetFromRegistry(); registry != "" && !known[registry] {
				r.addProblem(config.Problem{
					Code: code.UnknownMeshNetworksServiceRegistry, Key: config.Key{Kind: "MeshNetworks",
						Namespace: r.snapshot.Settings.RootNamespace, Name: "meshnetworks"},
					Origin: r.options.MeshNetworks.Name, Field: fmt.Sprintf("networks[%s].endpoints[%d].fromRegistry",
						name, i), Severity: config.Warning,
					Reason: fmt.Sprintf("there is no cluster %q", registry),
				})
			}
		}
	}
}

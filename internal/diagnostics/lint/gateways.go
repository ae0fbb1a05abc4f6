package lint

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	networking "istio.io/api/networking/v1alpha3"
	security "istio.io/api/security/v1beta1"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/code"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
)

// gateway is a Gateway with its object.
type gateway struct {
	object *object
	spec   *networking.Gateway
}

// gateways returns the Gateways that could be decoded.
func (r *analysisRun) gateways() []gateway {
	var list []gateway
	for o, spec := range specsOf[*networking.Gateway](r, api.Gateway) {
		list = append(list, gateway{o, spec})
	}
	return list
}

// checkGatewayConflicts adds a Warning for each pair of servers of two Gateways with the same port,
// address and host (sharedHost). The Gateways must be for the same proxies (shareProxies), and the
// later one has the Warning.
func (r *analysisRun) checkGatewayConflicts() {
	list := r.gateways()
	for i, g := range list {
		for _, other := range list[:i] {
			if !r.shareProxies(g.spec.GetSelector(), other.spec.GetSelector()) {
				continue
			}
			for j, s := range g.spec.GetServers() {
				for _, t := range other.spec.GetServers() {
					if host, found := sharedHost(s, t); found {
						r.addProblem(config.Problem{
							Code: code.ConflictingGateways, Key: g.object.key, Origin: g.object.origin(),
							Field:    fmt.Sprintf("spec.servers[%d]", j),
							Severity: config.Warning, Conflict: other.object.key,
							Reason: fmt.Sprintf("Gateway %s/%s has the host %q at port %d of the same proxies too",
								other.object.key.Namespace, other.object.key.Name, host, s.GetPort().GetNumber()),
						})
					}
				}
			}
		}
	}
}

// shareProxies reports whether two selectors are equal, or one contains the other and both match a
// known pod. Unknown pods are not considered.
func (r *analysisRun) shareProxies(a, b map[string]string) bool {
	if maps.Equal(a, b) {
		return true
	}
	if !snapshot.SelectorMatches(a, b) && !snapshot.SelectorMatches(b, a) {
		return false
	}
	return slices.ContainsFunc(r.ofKind(api.Pod), func(o *object) bool {
		return snapshot.SelectorMatches(a, o.meta.Labels) && snapshot.SelectorMatches(b, o.meta.Labels)
	})
}

// sharedHost returns the first host of s that t has too, written equally, if both have the same
// port number and bind. Otherwise found is false. Wildcards are not expanded.
func sharedHost(s, t *networking.Server) (host string, found bool) {
	if s.GetPort() == nil || t.GetPort() == nil || s.GetPort().GetNumber() != t.GetPort().GetNumber() ||
		s.GetBind() != t.GetBind() {
		return "", false
	}
	for _, h := range s.GetHosts() {
		if slices.Contains(t.GetHosts(), h) {
			return h, true
		}
	}
	return "", false
}

// checkGatewayCertificates reports each server whose certificate is also in another Gateway with an
// equal or narrower selector, so that this one selects all its proxies. It reports the server once
// for each such Gateway. Gateways without a selector are skipped.
func (r *analysisRun) checkGatewayCertificates() {
	list := r.gateways()
	for _, g := range list {
		for _, other := range list {
			if g.object == other.object || !snapshot.SelectorMatches(g.spec.GetSelector(), other.spec.GetSelector()) {
				continue
			}
			for i, s := range g.spec.GetServers() {
				if slices.ContainsFunc(
					other.spec.GetServers(),
					func(t *networking.Server) bool { return haveSameCertificate(s.GetTls(), t.GetTls()) },
				) {
					r.report(
						code.GatewayDuplicateCertificate,
						g.object,
						fmt.Sprintf("spec.servers[%d].tls", i),
						"Gateway %s/%s has the same certificate",
						other.object.key.Namespace,
						other.object.key.Name,
					)
				}
			}
		}
	}
}

// haveSameCertificate reports whether two servers have the same credentialName, or without one the
// same certificate and key files. It returns false if they have neither.
func haveSameCertificate(a, b *networking.ServerTLSSettings) bool {
	if a.GetCredentialName() != "" || b.GetCredentialName() != "" {
		return a.GetCredentialName() == b.GetCredentialName()
	}
	return a.GetServerCertificate() != "" && a.GetServerCertificate() == b.GetServerCertificate() &&
		a.GetPrivateKey() != "" &&
		a.GetPrivateKey() == b.GetPrivateKey()
}

// checkGatewayHosts reports Gateways in VirtualServices that do not exist or accept none of the
// hosts, and Gateways that are generated from the Gateway API. A Gateway that does not exist is
// reported as accepting none. VirtualServices without hosts are skipped.
func (r *analysisRun) checkGatewayHosts() {
	for o, spec := range specsOf[*networking.VirtualService](r, api.VirtualService) {
		for i, name := range spec.GetGateways() {
			if name == snapshot.MeshGateway || len(spec.GetHosts()) == 0 {
				continue
			}
			field := fmt.Sprintf("spec.gateways[%d]", i)
			if strings.Contains(name, "istio-autogenerated-k8s-gateway") {
				r.report(
					code.ReferencedInternalGateway,
					o,
					field,
					"%q is generated from a Gateway of the Gateway API",
					name,
				)
				continue
			}
			full := snapshot.ResolveGateway(name, o.key.Namespace)
			namespace, short, _ := strings.Cut(full, "/")
			g := r.byKey[config.Key{Kind: api.Gateway, Namespace: namespace, Name: short}]
			if g == nil || !acceptsHost(g, spec.GetHosts(), o.key.Namespace) {
				r.report(
					code.VirtualServiceHostNotFoundInGateway,
					o,
					field,
					"no server of Gateway %q accepts a host of %s",
					full,
					strings.Join(spec.GetHosts(), ", "),
				)
			}
		}
	}
}

// acceptsHost reports whether a server of the Gateway o accepts one of the hosts of a
// VirtualService in namespace. The hosts match if they are equal or either covers the other. A
// prefix of the server's host limits it to a namespace; "." is the Gateway's own. It returns true
// if the spec of o cannot be read.
func acceptsHost(o *object, hosts []string, namespace string) bool {
	if o.config == nil {
		return true
	}
	for _, s := range config.Spec[*networking.Gateway](o.config).GetServers() {
		for _, h := range s.GetHosts() {
			from, host, scoped := strings.Cut(h, "/")
			if !scoped {
				from, host = "*", h
			}
			if from == "." {
				from = o.key.Namespace
			}
			if from != "*" && from != namespace {
				continue
			}
			if slices.ContainsFunc(hosts, func(v string) bool {
				return mesh.Hostname(host).Covers(mesh.Hostname(v)) || mesh.Hostname(v).Covers(mesh.Hostname(host)) ||
					host == v
			}) {
				return true
			}
		}
	}
	return false
}

// checkGatewayCredentials reports each credentialName of a Gateway whose Secret has no valid
// certificate and key, or exists only in other namespaces than that of the gateway's pods. Gateways
// without pods are skipped. Only credentialName is checked, in the namespace of the first pod; a
// Secret that exists nowhere is left to the analysis.
func (r *analysisRun) checkGatewayCredentials() {
	faults := map[config.Key]string{}
	for _, p := range r.problems {
		if p.Key.Kind == api.Secret && p.MessageCode() == code.InvalidCredential && faults[p.Key] == "" {
			faults[p.Key] = p.Reason
		}
	}
	for _, g := range r.gateways() {
		pods := slices.DeleteFunc(
			r.ofKind(api.Pod),
			func(o *object) bool { return !snapshot.SelectorMatches(g.spec.GetSelector(), o.meta.Labels) },
		)
		for i, s := range g.spec.GetServers() {
			name := s.GetTls().GetCredentialName()
			if name == "" || len(pods) == 0 || strings.Contains(name, "://") {
				continue
			}
			field := fmt.Sprintf("spec.servers[%d].tls.credentialName", i)
			k := config.Key{Kind: api.Secret, Namespace: pods[0].key.Namespace, Name: name}
			secret := r.byKey[k]
			switch {
			case secret == nil && slices.ContainsFunc(r.ofKind(api.Secret),
				func(o *object) bool { return o.key.Name == name }):
				r.report(
					code.ReferencedResourceNotFound,
					g.object,
					field,
					"there is no Secret %q in the namespace %s of the proxies",
					name,
					k.Namespace,
				)
			case secret != nil && faults[k] != "":
				r.report(
					code.InvalidGatewayCredential,
					g.object,
					field,
					"Secret %s/%s: %s",
					k.Namespace,
					name,
					faults[k],
				)
			}
		}
	}
}

// checkClaimRoutes reports VirtualServices with matches of token claims for a Gateway whose proxies
// have no RequestAuthentication. Each pod of the Gateway is reported. Gateways that do not exist
// are skipped.
func (r *analysisRun) checkClaimRoutes() {
	for o, spec := range specsOf[*networking.VirtualService](r, api.VirtualService) {
		field := claimMatch(spec)
		if field == "" {
			continue
		}
		for _, name := range spec.GetGateways() {
			namespace, short, _ := strings.Cut(snapshot.ResolveGateway(name, o.key.Namespace), "/")
			g := r.byKey[config.Key{Kind: api.Gateway, Namespace: namespace, Name: short}]
			if g == nil || g.config == nil {
				continue
			}
			selector := config.Spec[*networking.Gateway](g.config).GetSelector()
			for _, pod := range r.ofKind(api.Pod) {
				if snapshot.SelectorMatches(selector, pod.meta.Labels) && !r.hasRequestAuthentication(pod) {
					r.report(
						code.JwtClaimBasedRoutingWithoutRequestAuthN,
						o,
						field,
						"no RequestAuthentication applies to pod %s of Gateway %s/%s",
						pod.key.Name,
						namespace,
						short,
					)
				}
			}
		}
	}
}

// claimMatch returns the path of a header condition on a token's claim ("@request.auth.claims"), of
// the first HTTP match that has one. It returns "" if none has. Of several in one match, any is
// returned.
func claimMatch(spec *networking.VirtualService) string {
	for i, route := range spec.GetHttp() {
		for j, m := range route.GetMatch() {
			for part, headers := range map[string]map[string]*networking.StringMatch{"headers": m.GetHeaders(),
				"withoutHeaders": m.GetWithoutHeaders()} {
				for name := range headers {
					if strings.HasPrefix(name, "@request.auth.claims") {
						return fmt.Sprintf("spec.http[%d].match[%d].%s[%s]", i, j, part, name)
					}
				}
			}
		}
	}
	return ""
}

// hasRequestAuthentication reports whether a RequestAuthentication of the pod's namespace or the
// root namespace applies to the pod: it selects the pod by labels, or has neither a selector nor
// targetRefs.
func (r *analysisRun) hasRequestAuthentication(pod *object) bool {
	for o, spec := range specsOf[*security.RequestAuthentication](r, api.RequestAuthentication) {
		if o.key.Namespace != pod.key.Namespace && o.key.Namespace != r.snapshot.Settings.RootNamespace {
			continue
		}
		selector := spec.GetSelector().GetMatchLabels()
		all := len(selector) == 0 && spec.GetTargetRef() == nil && len(spec.GetTargetRefs()) == 0
		if all || snapshot.SelectorMatches(selector, pod.meta.Labels) {
			return true
		}
	}
	return false
}

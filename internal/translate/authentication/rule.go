package authentication

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"time"

	security "istio.io/api/security/v1beta1"

	"github.com/meshpilot/meshpilot/internal/identity/jwks/keyset"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/code"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
	"github.com/meshpilot/meshpilot/internal/translate/destination"
)

// Rule is a JWTRule that applies to a proxy, with the keys that validate its tokens.
type Rule struct {
	Policy *config.Config
	// Index is the index of the rule in the object.
	Index int
	Spec  *security.JWTRule
	// Keys is a JSON Web Key Set. If Keys and Cluster are "", tokens of the issuer are rejected.
	Keys string
	// Cluster is the cluster through which Envoy fetches the keys itself, or "".
	Cluster string
	// Fault is why the keys are missing or may be outdated, or "".
	Fault string
	// field is the field that Fault refers to.
	field string
}

// sourceOf returns where the keys of a rule are published: its jwksUri, or else its issuer, for
// discovery. It returns the zero value if the rule contains them (jwks).
func sourceOf(r *security.JWTRule) mesh.KeySource {
	switch {
	case r.GetJwks() != "":
		return mesh.KeySource{}
	case r.GetJwksUri() != "":
		return mesh.KeySource{URI: r.GetJwksUri()}
	default:
		return mesh.KeySource{Issuer: r.GetIssuer()}
	}
}

// Sources returns the places from which the control plane must fetch the keys for an object. The
// value is the longest timeout of the rules with that source; 0 is the default timeout. It leaves
// out rules with inline keys and, if only proxies fetch keys (fetching), rules with a jwksUri. It
// returns nil for kinds other than RequestAuthentication.
func Sources(c *config.Config, fetching snapshot.KeyFetching) map[mesh.KeySource]time.Duration {
	if c.Kind != api.RequestAuthentication {
		return nil
	}
	list := map[mesh.KeySource]time.Duration{}
	for _, r := range config.Spec[*security.RequestAuthentication](c).GetJwtRules() {
		if s := sourceOf(r); s != (mesh.KeySource{}) && (s.URI == "" || fetching != snapshot.FetchedByProxies) {
			list[s] = max(list[s], r.GetTimeout().AsDuration())
		}
	}
	return list
}

// keysOf returns the source of the keys of each rule, in the order of policies and rules; it is
// zero for inline keys. If proxies may fetch the keys of a jwksUri and can, cluster is set.
// Otherwise set is the set that the control plane fetched, or nil if it has not. If only proxies
// may fetch the keys of a jwksUri and cannot, fault is set instead.
func keysOf(v *view.View, policies []*config.Config) []keys {
	var list []keys
	for _, c := range policies {
		for _, r := range config.Spec[*security.RequestAuthentication](c).GetJwtRules() {
			k := keys{source: sourceOf(r)}
			if fetching := v.Settings.Features.KeyFetching; k.source.URI != "" &&
				fetching != snapshot.FetchedByControlPlane {
				at := serviceAt(v, k.source.URI)
				if k.cluster = at.Cluster(); k.cluster == "" && fetching == snapshot.FetchedByProxies {
					k.fault = at.Fault
				}
			}
			if k.cluster == "" && k.fault == "" && k.source != (mesh.KeySource{}) {
				k.set = v.Snapshot.KeySet(k.source)
			}
			list = append(list, k)
		}
	}
	return list
}

// serviceAt returns the service at the host and port of uri as the View sees it. The default port
// is 80, or 443 for https. The result has a Fault if uri is not a URL or its port is invalid. It
// also has one as in destination.ProviderOf: for no such service or port, an alias, or an ambiguous
// host.
func serviceAt(v *view.View, uri string) destination.Provider {
	u, err := url.Parse(uri)
	if err != nil {
		// Validation refuses it.
		return destination.Provider{Fault: fmt.Sprintf("%q is not a URL", uri)}
	}
	port := uint64(80)
	if u.Scheme == "https" {
		port = 443
	}
	if p := u.Port(); p != "" {
		if port, err = strconv.ParseUint(p, 10, 16); err != nil {
			return destination.Provider{Fault: fmt.Sprintf("%q has no port", uri)}
		}
	}
	return destination.ProviderOf(v, u.Hostname(), uint32(port))
}

// rulesOf returns the rules of all objects, stably sorted by issuer as in istiod, because providers
// are named by their index. keys must have one element for each rule, in the order of policies and
// their rules (keysOf).
func rulesOf(policies []*config.Config, keys []keys) []Rule {
	var list []Rule
	for _, c := range policies {
		for i, spec := range config.Spec[*security.RequestAuthentication](c).GetJwtRules() {
			list = append(list, newRule(c, i, spec, keys[len(list)]))
		}
	}
	slices.SortStableFunc(list, func(a, b Rule) int { return cmp.Compare(a.Spec.GetIssuer(), b.Spec.GetIssuer()) })
	return list
}

// newRule returns the rule with the keys that it contains or that the control plane fetched. If
// proxies fetch the keys themselves (k.cluster), Cluster is set, and Keys and Fault are "". Fault
// is set, with empty Keys, if the keys are invalid, have not been fetched yet or cannot be fetched.
// Fetched keys that may be outdated are returned with their Fault.
func newRule(c *config.Config, index int, spec *security.JWTRule, k keys) Rule {
	r := Rule{Policy: c, Index: index, Spec: spec, Cluster: k.cluster, field: "jwksUri"}
	if spec.GetJwksUri() == "" {
		r.field = "issuer"
	}
	switch {
	case k.source == (mesh.KeySource{}):
		r.field = "jwks"
		var err error
		if r.Keys, err = keyset.ParseInline([]byte(spec.GetJwks())); err != nil {
			r.Fault = err.Error()
		}
	case k.cluster != "":
	case k.fault != "":
		r.Fault = "proxies are to fetch the keys, and cannot: " + k.fault
	case k.set == nil:
		r.Fault = fmt.Sprintf("the keys at %s have not been fetched yet", k.source)
	default:
		r.Keys, r.Fault = k.set.Text, k.set.Fault
	}
	return r
}

// problems returns one Warning without Origin, for the field of the keys, if r.Fault is set,
// otherwise nil. Its Reason is that the last good keys stay in use or, without keys, that tokens of
// the issuer are refused.
func (r Rule) problems() []config.Problem {
	if r.Fault == "" {
		return nil
	}
	reason := r.Fault + ": the last good keys stay in use"
	if r.Keys == "" {
		reason = fmt.Sprintf("%s: tokens of issuer %q are refused", r.Fault, r.Spec.GetIssuer())
	}
	return []config.Problem{{
		Code:     code.ReferencedResourceNotFound,
		Key:      r.Policy.Key,
		Field:    fmt.Sprintf("spec.jwtRules[%d].%s", r.Index, r.field),
		Reason:   reason,
		Severity: config.Warning,
	}}
}

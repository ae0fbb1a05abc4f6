package listener

import (
	"fmt"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	filterchainv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/filter_chain/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/resource"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
	"github.com/meshpilot/meshpilot/internal/translate/authentication"
	"github.com/meshpilot/meshpilot/internal/translate/authorization"
	"github.com/meshpilot/meshpilot/internal/translate/plugin"
)

// PoliciesExtension is the name of the extension config by which inbound connection managers
// receive access policies (ECDS). All of them reference it, with or without policies, so no change
// of a policy changes a listener.
const PoliciesExtension = "meshpilot.policies"

// If plugins of the phase AUTHZ run between authentication and authorization, two extension configs
// replace it: one with CUSTOM policies and authentication, and one with the other policies. If
// plugins of the phase AUTHN run before authentication, the first one is two as well.
const (
	customExtension         = "meshpilot.custom"
	tokensExtension         = "meshpilot.tokens"
	authenticationExtension = "meshpilot.authentication"
	authorizationExtension  = "meshpilot.authorization"
)

// policyParts are the parts of access policies, in the order in which requests pass them.
type policyParts struct{ custom, authentication, authorization bool }

// partsOf returns the parts that an extension config contains; none for any other name.
func partsOf(extension string) policyParts {
	switch extension {
	case PoliciesExtension:
		return policyParts{custom: true, authentication: true, authorization: true}
	case customExtension:
		return policyParts{custom: true}
	case tokensExtension:
		return policyParts{authentication: true}
	case authenticationExtension:
		return policyParts{custom: true, authentication: true}
	case authorizationExtension:
		return policyParts{authorization: true}
	default:
		return policyParts{}
	}
}

// accessFilters are the filters of access policies in listeners. Equal ones have the same pointer.
type accessFilters struct {
	// custom, callers and requests are the references to extension configs, or if the policies are
	// inside, all their filters. custom precede plugins of phase AUTHN, callers plugins of AUTHZ.
	custom, callers, requests []*hcmv3.HttpFilter

	// customConnections precede plugins of both phases, connections follow them.
	customConnections, connections []*listenerv3.Filter
	clusters                       []string
	from                           []config.Key
}

// accessInput is everything that accessFilters depend on.
type accessInput struct {
	// inside puts the policies into the listeners. Otherwise listeners reference extension configs.
	inside bool
	// plugins are the phases between which the extension configs leave room for plugins.
	plugins  accessPlugins
	policies policySet
}

// accessKey identifies an accessInput. Unless the policies are inside, it has only the text of
// their network filters, so most edits of policies leave it unchanged.
type accessKey struct {
	accessInput
	connections, from string
}

// key returns the cache key of the input: all of it if in.inside is set. Otherwise it has only
// in.plugins and the text of the filters for connections, with the objects that they derive from
// and the clusters that they refer to.
func (in accessInput) key() accessKey {
	if in.inside {
		return accessKey{accessInput: in}
	}
	k := accessKey{accessInput: accessInput{plugins: in.plugins}}
	if custom, rest := in.policies.connections(); len(custom)+len(rest) > 0 {
		k.connections = textOf(custom) + "; " + textOf(rest)
		k.from = fmt.Sprint(in.policies.contributors(), in.policies.clusters())
	}
	return k
}

// policySet is the policies that apply to some proxies; nil if there are none of a kind.
type policySet struct {
	authentication *authentication.Authentication
	authorization  *authorization.Authorization
}

// policies returns the authentication and authorization of requests to the View's proxies. A part
// without any policy object is nil, so that such Views have equal policySets.
func (g *Generator) policies(v *view.View) policySet {
	p := policySet{g.authentications.For(v), g.authorizations.For(v)}
	if p.authentication != nil && len(p.authentication.From) == 0 {
		p.authentication = nil
	}
	if p.authorization != nil && len(p.authorization.From) == 0 {
		p.authorization = nil
	}
	return p
}

// policiesTouched reports whether a change may alter the policies of a View; s is the snapshot
// after the change.
func (g *Generator) policiesTouched(v *view.View, s *snapshot.Snapshot, d snapshot.Delta) bool {
	return g.authentications.Touched(v, s, d) || g.authorizations.Touched(v, s, d)
}

// filters returns the HTTP filters of the parts in execution order: of CUSTOM policies, of
// authentication, and of the other policies. It returns nil without any. As in istiod, an external
// authorizer sees the client's token, and a token that it adds is verified.
func (p policySet) filters(parts policyParts) (list []*hcmv3.HttpFilter) {
	if parts.custom && p.authorization != nil {
		list = append(list, p.authorization.HTTP[:p.authorization.CustomHTTP]...)
	}
	if parts.authentication && p.authentication != nil {
		list = append(list, p.authentication.HTTP...)
	}
	if parts.authorization && p.authorization != nil {
		list = append(list, p.authorization.HTTP[p.authorization.CustomHTTP:]...)
	}
	return list
}

// connections returns the network filters of CUSTOM policies and of the other ones. There are none
// of authentication, because raw connections have no tokens. It returns nil without any.
func (p policySet) connections() (custom, rest []*listenerv3.Filter) {
	if p.authorization == nil {
		return nil, nil
	}
	return p.authorization.TCP[:p.authorization.CustomTCP], p.authorization.TCP[p.authorization.CustomTCP:]
}

// only returns the policies that the parts need, without the others.
func (p policySet) only(parts policyParts) policySet {
	if !parts.authentication {
		p.authentication = nil
	}
	if !parts.custom && !parts.authorization {
		p.authorization = nil
	}
	return p
}

// contributors returns the keys of the policy objects that the filters derive from, or nil without
// policies.
func (p policySet) contributors() (list []config.Key) {
	if p.authentication != nil {
		list = append(list, p.authentication.From...)
	}
	if p.authorization != nil {
		list = append(list, p.authorization.From...)
	}
	return list
}

// clusters returns the clusters that the filters use: of external authorizers, and of keys that
// Envoy fetches.
func (p policySet) clusters() (list []string) {
	if p.authentication != nil {
		list = append(list, p.authentication.Clusters...)
	}
	if p.authorization != nil {
		list = append(list, p.authorization.Clusters...)
	}
	return list
}

// accessFilters returns the filters of access policies in a View's listeners, cached or new. They
// are embedded if Key.PoliciesInside is set. Otherwise they are one reference by ECDS, or several
// if plugins run between them (accessPluginsOf).
func (g *Generator) accessFilters(v *view.View, plugins plugin.Places) *accessFilters {
	p := g.policies(v)
	if v.Key.PoliciesInside {
		return g.accessTable.Get(accessInput{inside: true, policies: p})
	}
	return g.accessTable.Get(accessInput{plugins: accessPluginsOf(plugins), policies: p})
}

// newAccessFilters returns the HTTP filters of access policies if in.inside is set, else references
// to them by ECDS: one, two for plugins of phase AUTHZ, or three for plugins of phase AUTHN.
// Network filters are never references. Without in.inside, clusters and from are set only if there
// are network filters.
func newAccessFilters(in accessInput) *accessFilters {
	p, out := in.policies, new(accessFilters)
	out.customConnections, out.connections = p.connections()
	if in.inside || len(out.customConnections)+len(out.connections) > 0 {
		out.clusters, out.from = p.clusters(), p.contributors()
	}
	reference := func(name string) []*hcmv3.HttpFilter { return []*hcmv3.HttpFilter{discoveredPolicies(name)} }
	switch {
	case in.inside:
		out.custom = p.filters(partsOf(customExtension))
		out.callers = p.filters(partsOf(tokensExtension))
		out.requests = p.filters(partsOf(authorizationExtension))
	case in.plugins.beforeAuthentication:
		out.custom, out.callers = reference(customExtension), reference(tokensExtension)
		out.requests = reference(authorizationExtension)
	case in.plugins.beforeAuthorization:
		out.callers, out.requests = reference(authenticationExtension), reference(authorizationExtension)
	default:
		out.requests = reference(PoliciesExtension)
	}
	return out
}

// textOf returns a text that is equal only for equal lists of filters. It panics if a filter cannot
// be encoded.
func textOf(filters []*listenerv3.Filter) string {
	var b []byte
	for _, f := range filters {
		one, err := proto.MarshalOptions{Deterministic: true}.Marshal(f)
		if err != nil {
			panic("listener: encode " + f.GetName() + ": " + err.Error()) // generated
		}
		b = append(appendNumber(b, uint32(len(one))), ' ')
		b = append(b, one...)
	}
	return string(b)
}

// discoveredPolicies returns an HTTP filter whose config comes by ECDS under name. The listener
// stays warming until it arrives, so no client is accepted without policies.
func discoveredPolicies(name string) *hcmv3.HttpFilter {
	return &hcmv3.HttpFilter{Name: name,
		ConfigType: &hcmv3.HttpFilter_ConfigDiscovery{ConfigDiscovery: &corev3.ExtensionConfigSource{
			ConfigSource: &corev3.ConfigSource{
				ConfigSourceSpecifier: &corev3.ConfigSource_Ads{Ads: new(corev3.AggregatedConfigSource)},
				ResourceApiVersion:    corev3.ApiVersion_V3,
				InitialFetchTimeout:   durationpb.New(0),
			},
			TypeUrls: []string{resource.Pack(new(filterchainv3.FilterChainConfig)).TypeUrl},
		}}}
}

// policyExtension is everything that an extension config with policies depends on.
type policyExtension struct {
	name     string
	policies policySet
}

// Policies returns the extension config name with the access policies of a View: PoliciesExtension,
// or one of its replacements. It returns nil for any other name. Without policies the
// extension config has no filters.
func (g *Generator) Policies(v *view.View, name string) *resource.Resource {
	parts := partsOf(name)
	if parts == (policyParts{}) {
		return nil
	}
	return g.policyExtensions.Get(policyExtension{name: name, policies: g.policies(v).only(parts)})
}

// PoliciesTouched reports whether a change may alter the result of Policies; s is the snapshot
// after the change.
func (g *Generator) PoliciesTouched(v *view.View, s *snapshot.Snapshot, d snapshot.Delta) bool {
	return g.policiesTouched(v, s, d)
}

// encodePolicies returns an extension config that contains a chain of filters, because the number
// of filters varies. Envoy runs them as if they were in the listener. It derives from the policies,
// and both refers to and pins their clusters. It panics if the config cannot be encoded.
func encodePolicies(in policyExtension) *resource.Resource {
	p := in.policies
	chain := new(filterchainv3.FilterChainConfig)
	for _, f := range p.filters(partsOf(in.name)) {
		if chain.DefaultFilterChain == nil {
			chain.DefaultFilterChain = new(filterchainv3.FilterChain)
		}
		chain.DefaultFilterChain.Filters = append(
			chain.DefaultFilterChain.Filters,
			&corev3.TypedExtensionConfig{Name: f.GetName(), TypedConfig: f.GetTypedConfig()},
		)
	}
	r, err := resource.Encode(
		in.name,
		api.ExtensionType,
		&corev3.TypedExtensionConfig{Name: in.name, TypedConfig: resource.Pack(chain)},
		p.contributors()...,
	)
	if err != nil {
		panic(fmt.Sprintf("extension %q: %v", in.name, err)) // Generated messages always encode.
	}
	if clusters := p.clusters(); len(clusters) > 0 {
		r.Refers = func() []string { return clusters }
		r.Pins = r.Refers
	}
	return r
}

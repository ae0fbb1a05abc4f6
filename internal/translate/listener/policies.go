package listener

import (
	"fmt"
	"slices"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	filterchainv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/filter_chain/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"

	networking "istio.io/api/networking/v1alpha3"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/model/resource"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
	"github.com/meshpilot/meshpilot/internal/translate/authentication"
	"github.com/meshpilot/meshpilot/internal/translate/authorization"
	"github.com/meshpilot/meshpilot/internal/translate/plugin"
)

// PoliciesExtension is the name of the extension by which connection managers that are called learn who may call (ECDS). They
// all name it, whether there are policies or not: so a policy that comes, changes or goes is no matter of any listener.
const PoliciesExtension = "meshpilot.policies"

// Where a plugin is between finding out who asks and deciding what they may (phase AUTHZ), there is an extension on either side of it
// instead.
const (
	authenticationExtension = "meshpilot.authentication"
	authorizationExtension  = "meshpilot.authorization"
)

// guard is what listeners that are called have inside of policies. Equal ones have one pointer.
type guard struct {
	// callers and requests are the slots for extensions, or where policies are inside all their filters: callers what goes before
	// plugins of phase AUTHZ, requests the rest.
	callers, requests []*hcmv3.HttpFilter

	connections []*listenerv3.Filter
	clusters    []string
	from        []config.Key
}

// guardInput is everything that a guard depends on.
type guardInput struct {
	// inside puts the policies into the listeners. Otherwise listeners have slots for extensions.
	inside bool
	// split leaves room for plugins between authentication and authorization.
	split    bool
	policies policySet
}

// guardKey identifies a guardInput. Unless the policies are inside, it has only the text of their
// filters of connections, so most edits of policies leave it unchanged.
type guardKey struct {
	guardInput
	connections, from string
}

func (in guardInput) key() guardKey {
	if in.inside {
		return guardKey{guardInput: in}
	}
	k := guardKey{guardInput: guardInput{split: in.split}}
	if list := in.policies.connections(); len(list) > 0 {
		k.connections, k.from = textOf(list), fmt.Sprint(in.policies.from(), in.policies.clusters())
	}
	return k
}

// policySet is the policies that hold for some proxies, nil if there are none of a kind.
type policySet struct {
	authentication *authentication.Authentication
	authorization  *authorization.Authorization
}

// policies gives the policies of a View.
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

// policiesTouched says whether a change may alter the policies of a View; s is the snapshot after it.
func (g *Generator) policiesTouched(v *view.View, s *snapshot.Snapshot, d snapshot.Delta) bool {
	return g.authentications.Touched(v, s, d) || g.authorizations.Touched(v, s, d)
}

// policyProblems returns what is wrong with the policies of a View. It includes ConnectionProblems only if the proxies of the View
// have a port that is not declared as HTTP.
func (g *Generator) policyProblems(v *view.View) []config.Problem {
	authorization := g.authorizations.For(v)
	list := slices.Concat(g.authentications.For(v).Problems, authorization.Problems)
	if len(authorization.ConnectionProblems) > 0 && servesRawConnections(v) {
		list = append(list, authorization.ConnectionProblems...)
	}
	return list
}

// servesRawConnections reports whether a port of a service, an ingress listener of the Sidecar or a server of the gateway may serve
// something else than HTTP. Ports without a declared protocol count.
func servesRawConnections(v *view.View) bool {
	if gateway := v.Gateway(); gateway != nil {
		return slices.ContainsFunc(gateway.Listeners, func(l *view.GatewayListener) bool {
			return slices.ContainsFunc(l.Servers, func(s *view.GatewayServer) bool { return !s.HTTP() })
		})
	}
	if len(v.Ingress) > 0 {
		return slices.ContainsFunc(v.Ingress, func(l *networking.IstioIngressListener) bool {
			protocol, _ := mesh.ParseProtocol(l.GetPort().GetProtocol())
			return !protocol.IsHTTP()
		})
	}
	return slices.ContainsFunc(v.Inbound, func(i view.Instance) bool { return !i.Port.Protocol.IsHTTP() })
}

// filters gives the filters of requests, in the order in which they pass them: who asks is found out before what they may.
func (p policySet) filters() (list []*hcmv3.HttpFilter) {
	if p.authentication != nil {
		list = append(list, p.authentication.HTTP...)
	}
	if p.authorization != nil {
		list = append(list, p.authorization.HTTP...)
	}
	return list
}

// connections gives the filters of raw connections, which carry no tokens.
func (p policySet) connections() []*listenerv3.Filter {
	if p.authorization == nil {
		return nil
	}
	return p.authorization.TCP
}

func (p policySet) from() (list []config.Key) {
	if p.authentication != nil {
		list = append(list, p.authentication.From...)
	}
	if p.authorization != nil {
		list = append(list, p.authorization.From...)
	}
	return list
}

func (p policySet) clusters() (list []string) {
	if p.authentication != nil {
		list = append(list, p.authentication.Clusters...)
	}
	if p.authorization != nil {
		list = append(list, p.authorization.Clusters...)
	}
	return list
}

// guard gives the guard of a View that has plugins in those places.
func (g *Generator) guard(v *view.View, plugins plugin.Places) *guard {
	p := g.policies(v)
	if v.Key.PoliciesInside {
		return g.guards.Get(guardInput{inside: true, policies: p})
	}
	return g.guards.Get(guardInput{split: betweenPolicies(plugins), policies: p})
}

func newGuard(in guardInput) *guard {
	p := in.policies
	if in.inside {
		who, what := p.halves()
		return &guard{
			callers:     who.filters(),
			requests:    what.filters(),
			connections: p.connections(),
			clusters:    p.clusters(),
			from:        p.from(),
		}
	}
	out := &guard{requests: []*hcmv3.HttpFilter{discoveredPolicies(PoliciesExtension)}}
	if in.split {
		out.callers = []*hcmv3.HttpFilter{discoveredPolicies(authenticationExtension)}
		out.requests = []*hcmv3.HttpFilter{discoveredPolicies(authorizationExtension)}
	}
	if list := p.connections(); len(list) > 0 {
		out.connections, out.clusters, out.from = list, p.clusters(), p.from()
	}
	return out
}

// textOf gives text that is the same for equal filters only.
func textOf(filters []*listenerv3.Filter) string {
	var b []byte
	for _, f := range filters {
		one, err := proto.MarshalOptions{Deterministic: true}.Marshal(f)
		if err != nil {
			panic("listener: encode " + f.GetName() + ": " + err.Error()) // of our own making
		}
		b = append(appendNumber(b, uint32(len(one))), ' ')
		b = append(b, one...)
	}
	return string(b)
}

// discoveredPolicies is the filter whose place policies take. The listener waits for them: nobody gets in before.
func discoveredPolicies(name string) *hcmv3.HttpFilter {
	return &hcmv3.HttpFilter{Name: name, ConfigType: &hcmv3.HttpFilter_ConfigDiscovery{ConfigDiscovery: &corev3.ExtensionConfigSource{
		ConfigSource: &corev3.ConfigSource{
			ConfigSourceSpecifier: &corev3.ConfigSource_Ads{Ads: new(corev3.AggregatedConfigSource)},
			ResourceApiVersion:    corev3.ApiVersion_V3,
			InitialFetchTimeout:   durationpb.New(0),
		},
		TypeUrls: []string{resource.Pack(new(filterchainv3.FilterChainConfig)).TypeUrl},
	}}}
}

// halves gives who asks and what they may apart.
func (p policySet) halves() (who, what policySet) {
	return policySet{authentication: p.authentication}, policySet{authorization: p.authorization}
}

// policyExtension is all that an extension of policies depends on.
type policyExtension struct {
	name     string
	policies policySet
}

// Policies gives the extension of that name if it is PoliciesExtension or a half of it.
func (g *Generator) Policies(v *view.View, name string) *resource.Resource {
	in := policyExtension{name: name}
	switch name {
	case PoliciesExtension:
		in.policies = g.policies(v)
	case authenticationExtension:
		in.policies, _ = g.policies(v).halves()
	case authorizationExtension:
		_, in.policies = g.policies(v).halves()
	default:
		return nil
	}
	return g.policyExtensions.Get(in)
}

// PoliciesTouched says whether a change may alter what Policies gives; s is the snapshot after it.
func (g *Generator) PoliciesTouched(v *view.View, s *snapshot.Snapshot, d snapshot.Delta) bool {
	return g.policiesTouched(v, s, d)
}

// encodePolicies makes a chain of filters inside one, since how many there are differs. Envoy puts them in the place of that one,
// where they do what they would do in the listener.
func encodePolicies(in policyExtension) *resource.Resource {
	p := in.policies
	chain := new(filterchainv3.FilterChainConfig)
	for _, f := range p.filters() {
		if chain.DefaultFilterChain == nil {
			chain.DefaultFilterChain = new(filterchainv3.FilterChain)
		}
		chain.DefaultFilterChain.Filters = append(chain.DefaultFilterChain.Filters, &corev3.TypedExtensionConfig{Name: f.GetName(), TypedConfig: f.GetTypedConfig()})
	}
	r, err := resource.Encode(in.name, api.ExtensionType, &corev3.TypedExtensionConfig{Name: in.name, TypedConfig: resource.Pack(chain)}, p.from()...)
	if err != nil {
		panic(fmt.Sprintf("extension %q: %v", in.name, err)) // messages of our own making always encode
	}
	if clusters := p.clusters(); len(clusters) > 0 {
		r.Refers = func() []string { return clusters }
	}
	return r
}

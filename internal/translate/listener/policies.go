package listener

import (
	"fmt"
	"slices"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	filterchainv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/filter_chain/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/meshpilot/meshpilot/internal/api"
	"github.com/meshpilot/meshpilot/internal/config"
	"github.com/meshpilot/meshpilot/internal/resource"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/translate/authentication"
	"github.com/meshpilot/meshpilot/internal/translate/authorization"
	"github.com/meshpilot/meshpilot/internal/view"
)

// PoliciesExtension is the name of the extension by which connection managers that are called learn who may call (ECDS). They
// all name it, whether there are policies or not: so a policy that comes, changes or goes is no matter of any listener.
const PoliciesExtension = "meshpilot.policies"

// guard is what listeners that are called have inside of policies. Equal ones have one pointer.
type guard struct {
	// requests is the slot for the extension, or where policies are inside all their filters.
	requests    []*hcmv3.HttpFilter
	connections []*listenerv3.Filter
	clusters    []string
	from        []config.Key
}

// guardInput is all that a guard depends on: the policies where they are inside, or else only what the filters of connections say.
// So most edits of policies leave it as it was.
type guardInput struct {
	inside            bool
	policies          policySet
	connections, from string
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

// policyProblems gives what is wrong with the policies of a View.
func (g *Generator) policyProblems(v *view.View) []config.Problem {
	return slices.Concat(g.authentications.For(v).Problems, g.authorizations.For(v).Problems)
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

// guard gives the guard of a View.
func (g *Generator) guard(v *view.View) *guard {
	p := g.policies(v)
	if v.Key.PoliciesInside {
		return g.guards.Do(guardInput{inside: true, policies: p}, func(guardInput) *guard {
			return &guard{requests: p.filters(), connections: p.connections(), clusters: p.clusters(), from: p.from()}
		})
	}
	var in guardInput
	if list := p.connections(); len(list) > 0 {
		in.connections, in.from = textOf(list), fmt.Sprint(p.from(), p.clusters())
	}
	return g.guards.Do(in, func(in guardInput) *guard {
		out := &guard{requests: []*hcmv3.HttpFilter{discoveredPolicies()}}
		if in.connections != "" {
			out.connections, out.clusters, out.from = p.connections(), p.clusters(), p.from()
		}
		return out
	})
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
func discoveredPolicies() *hcmv3.HttpFilter {
	return &hcmv3.HttpFilter{Name: PoliciesExtension, ConfigType: &hcmv3.HttpFilter_ConfigDiscovery{ConfigDiscovery: &corev3.ExtensionConfigSource{
		ConfigSource: &corev3.ConfigSource{
			ConfigSourceSpecifier: &corev3.ConfigSource_Ads{Ads: new(corev3.AggregatedConfigSource)},
			ResourceApiVersion:    corev3.ApiVersion_V3,
			InitialFetchTimeout:   durationpb.New(0),
		},
		TypeUrls: []string{packed(new(filterchainv3.FilterChainConfig)).TypeUrl},
	}}}
}

// Policies gives the extension PoliciesExtension of a View; nil for other names.
func (g *Generator) Policies(v *view.View, name string) *resource.Resource {
	if name != PoliciesExtension {
		return nil
	}
	return g.policyExtensions.Do(g.policies(v), encodePolicies)
}

// PoliciesTouched says whether a change may alter what Policies gives; s is the snapshot after it.
func (g *Generator) PoliciesTouched(v *view.View, s *snapshot.Snapshot, d snapshot.Delta) bool {
	return g.policiesTouched(v, s, d)
}

// encodePolicies makes a chain of filters inside one, since how many there are differs. Envoy puts them in the place of that one,
// where they do what they would do in the listener.
func encodePolicies(p policySet) *resource.Resource {
	chain := new(filterchainv3.FilterChainConfig)
	for _, f := range p.filters() {
		if chain.DefaultFilterChain == nil {
			chain.DefaultFilterChain = new(filterchainv3.FilterChain)
		}
		chain.DefaultFilterChain.Filters = append(chain.DefaultFilterChain.Filters, &corev3.TypedExtensionConfig{Name: f.GetName(), TypedConfig: f.GetTypedConfig()})
	}
	r, err := resource.Encode(PoliciesExtension, api.ExtensionType, &corev3.TypedExtensionConfig{Name: PoliciesExtension, TypedConfig: packed(chain)}, p.from()...)
	if err != nil {
		panic(fmt.Sprintf("extension %q: %v", PoliciesExtension, err)) // messages of our own making always encode
	}
	if clusters := p.clusters(); len(clusters) > 0 {
		r.Refers = func() []string { return clusters }
	}
	return r
}

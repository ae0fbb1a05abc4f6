package telemetry

import (
	"cmp"
	"fmt"

	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"

	"google.golang.org/protobuf/types/known/wrapperspb"

	meshconfig "istio.io/api/mesh/v1alpha1"
	telemetry "istio.io/api/telemetry/v1alpha1"

	"github.com/meshpilot/meshpilot/internal/snapshot/view"
)

// defaultSampling is the default percentage of requests that are traced.
const defaultSampling = 1

// traceChoice is the effective setting of all entries that apply to a side; later entries override
// earlier ones.
type traceChoice struct {
	// provider is where spans are sent, or nil if there is none.
	provider           *named
	at                 origin // the last entry for the side
	sampling           *float64
	tags               map[string]*telemetry.Tracing_CustomTag
	tagsAt             origin // the entry that has tags
	disabled           bool
	istioTags          *bool
	noContext          bool
	noContextAt        origin // the entry that sets noContext
	sampledByRequestID *bool
	// policed is set for the side on which AuthorizationPolicies are evaluated.
	policed bool
}

// addTracing sets the tracing of a side in out. If neither an object nor a default provider
// configures it, MeshConfig.enableTracing and ProxyConfig.tracing apply, with the tracer of the
// bootstrap. out.Tracing stays nil if tracing is disabled, or the side has no provider that can be
// used. An unusable provider is a Warning, and so is none if an entry applies to the side.
// SamplesByRequestID is true unless the objects disable it and out.Tracing is set.
func (m *builder) addTracing(s side, out *Side) {
	out.SamplesByRequestID = true
	c, any := m.chooseTracing(s)
	c.policed = s == server || m.router
	switch {
	case !any && !m.settings.Mesh.GetEnableTracing(), c.disabled:
		return
	case !any:
		out.Tracing = m.newTracing(c)
		return
	}
	if c.provider == nil {
		if c.at != (origin{}) {
			m.addWarning(c.at,
				"names no provider, and the mesh has no default one (defaultProviders.tracing): there are no spans")
		}
		return
	}
	t := m.newTracing(c)
	if !m.setProvider(*c.provider, t) {
		return
	}
	switch {
	case c.noContext && m.lacks.Has(view.DisabledContextPropagation):
		m.warnLackingEnvoy(c.noContextAt, "they pass on the context of traces", view.DisabledContextPropagation)
	default:
		t.NoContextPropagation = c.noContext
	}
	out.Tracing, out.SamplesByRequestID = t, c.sampledByRequestID == nil || *c.sampledByRequestID
}

// chooseTracing returns the merged entries of all objects that apply to the side; later ones
// override. any reports whether there are default providers or entries, also for the other side
// only. Of several default providers only the first is used, with a Warning.
func (m *builder) chooseTracing(s side) (c traceChoice, any bool) {
	for _, n := range defaults("tracing", m.settings.Mesh.GetDefaultProviders().GetTracing()) {
		if any {
			m.addWarning(n.origin, "only the first provider is used: a proxy sends its spans to one place")
			break
		}
		c.provider, any = &n, true
	}
	for _, l := range m.layers {
		for i, t := range l.spec.GetTracing() {
			any = true
			if !s.matchesMode(t.GetMatch().GetMode()) {
				continue
			}
			c.mergeEntry(t, origin{l.key, fmt.Sprintf("spec.tracing[%d]", i)})
		}
	}
	return c, any
}

// mergeEntry applies one entry on top of earlier ones: each field that it sets overrides, and its
// custom tags replace all earlier ones. Of its providers, only the first is used. at is the path of
// the entry.
func (c *traceChoice) mergeEntry(t *telemetry.Tracing, at origin) {
	c.at = at
	if refs := t.GetProviders(); len(refs) > 0 { // Validation warns if there are several.
		c.provider = &named{origin{at.key, at.field + ".providers[0].name"}, refs[0].GetName()}
	}
	if x := t.GetRandomSamplingPercentage(); x != nil {
		c.sampling = &x.Value
	}
	if x := t.GetDisableSpanReporting(); x != nil {
		c.disabled = x.Value
	}
	if len(t.GetCustomTags()) > 0 {
		c.tags, c.tagsAt = t.GetCustomTags(), origin{at.key, at.field + ".customTags"}
	}
	if x := t.GetUseRequestIdForTraceSampling(); x != nil {
		c.sampledByRequestID = &x.Value
	}
	if x := t.GetEnableIstioTags(); x != nil {
		c.istioTags = &x.Value
	}
	if x := t.GetDisableContextPropagation(); x != nil {
		c.noContext, c.noContextAt = x.Value, origin{at.key, at.field + ".disableContextPropagation"}
	}
}

// newTracing returns the tracing config with sampling, tags and ProxyConfig's maximum tag length,
// without a provider. The objects determine the sampling, limited to 0 to 100 percent, else
// ProxyConfig, if above 0 and at most 100. The last resorts are Features.TraceSampling and
// defaultSampling. Client and overall sampling are always 100 percent.
func (m *builder) newTracing(c traceChoice) *hcmv3.HttpConnectionManager_Tracing {
	proxy := m.settings.Mesh.GetDefaultConfig().GetTracing()
	sampling := proxy.GetSampling()
	if sampling <= 0 || sampling > 100 {
		sampling = min(max(cmp.Or(m.settings.Features.TraceSampling, defaultSampling), 0), 100)
	}
	if c.sampling != nil {
		sampling = min(max(*c.sampling, 0), 100)
	}
	t := &hcmv3.HttpConnectionManager_Tracing{
		ClientSampling:  &typev3.Percent{Value: 100},
		RandomSampling:  &typev3.Percent{Value: sampling},
		OverallSampling: &typev3.Percent{Value: 100},
		CustomTags:      m.spanTags(c),
	}
	if n := proxy.GetMaxPathTagLength(); n > 0 {
		t.MaxPathTagLength = wrapperspb.UInt32(n)
	}
	return t
}

// setProvider sets in t the provider that receives the spans, and its maximum tag length if
// configured. It enables own spans for upstream calls of gateways and for SkyWalking, and adds the
// provider's cluster to m.out.Clusters. If the provider has its own sampler (samplerOf), it also
// sets the random sampling to 100 %. If the provider does not exist, does not receive spans or has
// no service, it adds a Warning and returns false; t is unchanged.
func (m *builder) setProvider(n named, t *hcmv3.HttpConnectionManager_Tracing) bool {
	p := m.providers.findProvider(n.name)
	if p == nil {
		m.addWarning(n.origin, fmt.Sprintf("there is no extension provider %q in the mesh configuration", n.name))
		return false
	}
	if _, ok := addressOf(p); !ok || isLog(p) {
		m.addWarning(n.origin, notFor(p, "spans"))
		return false
	}
	at, ok := m.serviceOf(n, p)
	if !ok {
		return false
	}
	if m.router { // It answers one call and makes another, so each has a span.
		t.SpawnUpstreamSpan = wrapperspb.Bool(true)
	}
	var length uint32
	switch x := p.GetProvider().(type) {
	case *meshconfig.MeshConfig_ExtensionProvider_Zipkin:
		headers := m.headersOf(n, x.Zipkin.GetHeaders())
		t.Provider, length = zipkin(x.Zipkin, at, headers), x.Zipkin.GetMaxTagLength()
	case *meshconfig.MeshConfig_ExtensionProvider_Datadog:
		t.Provider, length = datadog(at), x.Datadog.GetMaxTagLength()
	case *meshconfig.MeshConfig_ExtensionProvider_Skywalking:
		t.Provider = skywalking(x.Skywalking, at)
		t.SpawnUpstreamSpan = wrapperspb.Bool(true) // SkyWalking derives its topology from exit spans.
	case *meshconfig.MeshConfig_ExtensionProvider_Opentelemetry:
		sampler, sampled := m.samplerOf(n, p)
		headers := x.Opentelemetry.GetGrpc().GetInitialMetadata()
		if x.Opentelemetry.GetHttp() != nil {
			headers = x.Opentelemetry.GetHttp().GetHeaders()
		}
		t.Provider = openTelemetry(x.Opentelemetry, at, m.headersOf(n, headers), sampler)
		length = x.Opentelemetry.GetMaxTagLength()
		if sampled { // The sampler decides, so it must see all spans.
			t.RandomSampling = &typev3.Percent{Value: 100}
		}
	}
	if length > 0 {
		t.MaxPathTagLength = wrapperspb.UInt32(length)
	}
	return true
}

// isLog reports whether a provider receives access logs by a service: EnvoyHttpAls, EnvoyTcpAls or
// EnvoyOtelAls. It returns false for log files.
func isLog(p *provider) bool {
	return p.GetEnvoyHttpAls() != nil || p.GetEnvoyTcpAls() != nil || p.GetEnvoyOtelAls() != nil
}

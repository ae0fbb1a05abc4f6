package listener

import (
	"fmt"
	"slices"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/model/resource"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
)

// extensionInput is everything that the TCP proxy of a chain depends on when it is sent by ECDS.
type extensionInput struct {
	chain *Chain
	from  []config.Key
	listenerContext
}

// extensionKey identifies an extensionInput.
type extensionKey struct {
	name string
	tcp  string // the complete text of the chain's TCP proxy
	from string // the text of the objects that it derives from
	listenerContext
}

// key returns the cache key of the extension config: the chain's name, the text of its TCP proxy,
// the objects and the context.
func (in extensionInput) key() extensionKey {
	return extensionKey{
		name:            in.chain.Name,
		tcp:             string(in.chain.TCP.appendText(nil)),
		from:            fmt.Sprint(in.from),
		listenerContext: in.listenerContext,
	}
}

// Extension returns the extension config of that name which a listener of the View references:
// outbound listeners, or for a gateway its own. It returns nil if none does.
func (g *Generator) Extension(v *view.View, name string) *resource.Resource {
	if v.Key.Type == mesh.RouterProxy {
		return g.gateway(v).extensions[name]
	}
	return g.outbound(v).extensions[name]
}

// encodeExtension returns the TCP proxy of a discovered chain as an extension config, named after
// the chain. It derives from in.from and the objects of telemetry. It refers to the clusters of the
// chain and of telemetry, and pins the latter. It panics if the config cannot be encoded.
func (g *Generator) encodeExtension(in extensionInput) *resource.Resource {
	c, from, a := in.chain, in.from, in.listenerContext
	common := g.shared.Get(a)
	b := builder{sharedParts: common}
	r, err := resource.Encode(
		c.Name,
		api.ExtensionType,
		&corev3.TypedExtensionConfig{Name: c.Name, TypedConfig: resource.Pack(b.tcpProxy(c.TCP))},
		slices.Concat(from, a.telemetry.From)...,
	)
	if err != nil {
		panic(fmt.Sprintf("extension %q: %v", c.Name, err)) // Generated messages always encode.
	}
	r.Parts = common
	clusters := slices.Concat(c.TCP.clusterNames(), a.telemetry.Clusters)
	r.Refers, r.Pins = func() []string { return clusters }, func() []string { return a.telemetry.Clusters }
	return r
}

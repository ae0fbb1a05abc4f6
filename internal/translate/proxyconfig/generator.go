package proxyconfig

import (
	"fmt"
	"slices"

	meshconfig "istio.io/api/mesh/v1alpha1"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/resource"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
	"github.com/meshpilot/meshpilot/internal/translate/memo"
)

// Name is the name of the only resource. istiod's has none; a name lets a client report its
// version.
const Name = "proxyconfig"

// Generator generates the ProxyConfig of a mesh. It is safe for concurrent use.
type Generator struct {
	configs *memo.Table[*snapshot.Settings, *resource.Resource]
}

// NewGenerator returns a Generator with an empty cache.
func NewGenerator() *Generator {
	return &Generator{configs: memo.New(newResource)}
}

// Scope returns the part of a Key that the View of the generator is built from. The output depends
// on nothing of it. The fields that it keeps let the View share its services with others.
func Scope(k view.Key) view.Key {
	return view.Key{AttachedObjects: k.ObjectsFor(view.ServiceReader), Namespace: k.Namespace}
}

// All returns the ProxyConfig of the mesh, one resource. istiod answers only if
// ISTIO_MULTIROOT_MESH is set, and an agent subscribes only if PROXY_CONFIG_XDS_AGENT is; here
// every subscription is answered.
//
// It returns nil while the roots of our own authority, or a trust bundle, are unknown, as when a
// control plane starts. Otherwise agents would stop trusting certificates that are still in use, or
// that were just issued.
func (g *Generator) All(v *view.View) []*resource.Resource {
	if v.Settings.RootsComing ||
		slices.ContainsFunc(
			Addresses(v.Settings.Mesh),
			func(a string) bool { _, known := v.Settings.Bundles[a]; return !known },
		) {
		return nil
	}
	return []*resource.Resource{g.configs.Get(v.Settings)}
}

// Touched reports whether a change may alter the ProxyConfig. Only a change of settings does, which
// is a change of everything.
func Touched(_ *view.View, _ *snapshot.Snapshot, d snapshot.Delta) bool { return d.All }

// Computed returns how many ProxyConfigs have been generated since the start.
func (g *Generator) Computed() uint64 { return g.configs.Computed() }

// newResource returns the encoded ProxyConfig, which has only the trusted certificates
// (encodeAnchors). It panics if that cannot be encoded.
func newResource(s *snapshot.Settings) *resource.Resource {
	r, err := resource.Encode(Name, api.ProxyConfigType, &meshconfig.ProxyConfig{CaCertificatesPem: encodeAnchors(s)})
	if err != nil {
		panic(fmt.Sprintf("proxy config: %v", err)) // Generated messages always encode.
	}
	return r
}

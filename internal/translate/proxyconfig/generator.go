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

// Name is the name of the one resource. istiod gives it none; a name lets a client say which version it has.
const Name = "proxyconfig"

// Generator makes the ProxyConfig of a mesh. It is for use by many goroutines.
type Generator struct {
	configs *memo.Table[*snapshot.Settings, *resource.Resource]
}

// NewGenerator makes a Generator that remembers nothing yet.
func NewGenerator() *Generator {
	return &Generator{configs: memo.New(encoded)}
}

// Scope gives the part of a Key that the output depends on. That is nothing at all; what is left lets the View share its
// services with others.
func Scope(k view.Key) view.Key {
	return view.Key{Namespace: k.Namespace, Sidecar: k.Sidecar}
}

// All gives the ProxyConfig, always one. istiod answers only where ISTIO_MULTIROOT_MESH is set; an agent asks only where
// PROXY_CONFIG_XDS_AGENT is, and what asks is answered here.
//
// While the roots of our own authority, or a trust bundle, are not known, as when a control plane starts, there is none: an agent that
// was told less than it knows would stop to trust what others still have, or have just got.
func (g *Generator) All(v *view.View) []*resource.Resource {
	if v.Settings.RootsComing || slices.ContainsFunc(Addresses(v.Settings.Mesh), func(a string) bool { _, known := v.Settings.Bundles[a]; return !known }) {
		return nil
	}
	return []*resource.Resource{g.configs.Get(v.Settings)}
}

// Touched says whether a change may alter the ProxyConfig: only one of settings, which is a change of everything.
func Touched(_ *view.View, _ *snapshot.Snapshot, d snapshot.Delta) bool { return d.All }

// Computed is how many ProxyConfigs were really made since the start, for tests and metrics.
func (g *Generator) Computed() uint64 { return g.configs.Computed() }

func encoded(s *snapshot.Settings) *resource.Resource {
	r, err := resource.Encode(Name, api.ProxyConfigType, &meshconfig.ProxyConfig{CaCertificatesPem: texts(s)})
	if err != nil {
		panic(fmt.Sprintf("proxy config: %v", err)) // messages of our own making always encode
	}
	return r
}

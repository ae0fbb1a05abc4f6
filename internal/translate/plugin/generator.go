package plugin

import (
	"fmt"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"github.com/meshpilot/meshpilot/internal/api"
	"github.com/meshpilot/meshpilot/internal/config"
	"github.com/meshpilot/meshpilot/internal/resource"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/translate/memo"
	"github.com/meshpilot/meshpilot/internal/view"
)

// Generator makes the extensions of Views, each distinct one once. It is for use by many goroutines.
type Generator struct {
	made *memo.Table[*config.Config, *resource.Resource]
}

// NewGenerator makes a Generator that remembers nothing yet.
func NewGenerator() *Generator { return &Generator{memo.New[*config.Config, resource.Resource]()} }

// Named gives the extension of that name, nil if no plugin of the View has it: what others run is nobody else's business.
func (g *Generator) Named(v *view.View, name string) *resource.Resource {
	if !strings.HasPrefix(name, namePrefix) {
		return nil
	}
	for _, c := range v.Snapshot.Plugins(v.Key.Plugins) {
		if nameOf(c.Key) == name {
			return g.made.Do(c, encode)
		}
	}
	return nil
}

// Computed is how many extensions were really made since the start, for tests and metrics.
func (g *Generator) Computed() uint64 { return g.made.Computed() }

// Touched says whether a change may alter what Named gives; s is the snapshot after it.
func Touched(v *view.View, _ *snapshot.Snapshot, d snapshot.Delta) bool {
	if d.All {
		return true
	}
	for k := range d.Configs {
		if v.Key.Plugins.Has(k) {
			return true
		}
	}
	return false
}

// Scope is the part of a Key that Named depends on.
func Scope(k view.Key) view.Key { return view.Key{Plugins: k.Plugins} }

func encode(c *config.Config) *resource.Resource {
	name := nameOf(c.Key)
	r, err := resource.Encode(name, api.ExtensionType, &corev3.TypedExtensionConfig{Name: name, TypedConfig: packed(filterOf(c))}, c.Key)
	if err != nil {
		panic(fmt.Sprintf("extension %q: %v", name, err)) // messages of our own making always encode
	}
	return r
}

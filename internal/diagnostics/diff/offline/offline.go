package offline

import (
	"cmp"
	"slices"

	"github.com/meshpilot/meshpilot/internal/diagnostics/diff"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/translate"
)

// Options select the proxies and the mesh configuration of a comparison.
type Options struct {
	// MeshConfig is MeshConfig in YAML; nil for the defaults.
	MeshConfig []byte
	// Includes reports whether a proxy is compared. If nil, all are.
	Includes func(*mesh.Proxy) bool
}

// Compare returns the effect of replacing the objects before by the objects after. It returns an
// error if the MeshConfig is invalid. Proxies that only one of the states has are named and not
// compared. Proxies that o.Includes does not accept are left out; if it is nil, all are included.
func Compare(before, after *Objects, o Options) (*diff.Report, error) {
	m, err := NewMesh(o.MeshConfig)
	if err != nil {
		return nil, err
	}
	s := m.SetObjects(before)
	next := m.SetObjects(after)
	table := translate.NewTable(translate.Options{})
	in := diff.NewInput(table, translate.Unhonoured)
	in.Before, in.After = s, next
	var added, removed []string
	old, now := Proxies(s), Proxies(next)
	for name, p := range now {
		switch {
		case o.Includes != nil && !o.Includes(p):
		case old[name] == nil:
			added = append(added, name)
		default:
			in.Proxies = append(in.Proxies, p)
		}
	}
	for name, p := range old {
		if now[name] == nil && (o.Includes == nil || o.Includes(p)) {
			removed = append(removed, name)
		}
	}
	slices.SortFunc(in.Proxies, func(a, b *mesh.Proxy) int { return cmp.Compare(a.ID, b.ID) })
	r, err := diff.Compare(in)
	if err != nil {
		return nil, err
	}
	slices.Sort(added)
	slices.Sort(removed)
	r.NewProxies, r.GoneProxies = added, removed
	return r, nil
}

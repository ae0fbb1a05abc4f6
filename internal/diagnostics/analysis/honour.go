package analysis

import (
	"cmp"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/code"
	"github.com/meshpilot/meshpilot/internal/model/config"
)

// reportIgnored adds to a.found the Problems of every object that unhonoured finds, with the
// object's key and origin. Their code is FieldWithoutEffect unless unhonoured sets another. It
// reuses the cached results of unchanged objects, and replaces a.known by the results for this
// snapshot. Converted objects (Extension) are skipped.
func (a *analyzer) reportIgnored(unhonoured func(*config.Config) []config.Problem) {
	known := a.known
	a.known = make(map[*config.Config][]config.Problem, len(known))
	for _, kind := range api.Kinds() {
		for _, c := range a.s.Configs(kind.Kind) {
			if c.Extension != nil {
				continue
			}
			list, looked := known[c]
			if !looked {
				list = unhonoured(c)
			}
			a.known[c] = list
			for _, p := range list {
				p.Key, p.Origin = c.Key, c.Origin
				p.Code = cmp.Or(p.Code, code.FieldWithoutEffect)
				a.found = append(a.found, p)
			}
		}
	}
}

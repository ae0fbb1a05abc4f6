package diff

import (
	"github.com/meshpilot/meshpilot/internal/diagnostics/debug"
)

// Operation is what happens to a resource.
type Operation string

// The operations.
const (
	Added   Operation = "added"
	Changed Operation = "changed"
	Removed Operation = "removed"
)

// Report is the effect of a change of the mesh.
type Report struct {
	// Proxies is the number of proxies that were compared, and Changed how many of them are sent
	// something.
	Proxies int `json:"proxies" doc:"Proxies that were compared."`
	Changed int `json:"changed" doc:"Those of them whose configuration changes."`
	// Groups are the proxies that change, by equal changes, the largest group first.
	Groups []Group `json:"groups,omitempty" doc:"Proxies that change in the same way."`
	// NewProxies and GoneProxies exist only after or only before the change, and are not compared.
	NewProxies  []string `json:"newProxies,omitempty" doc:"Proxies that the change adds; they are not compared."`
	GoneProxies []string `json:"goneProxies,omitempty" doc:"Proxies that the change removes; they are not compared."`
	// NewProblems and ResolvedProblems are the Problems that appear and disappear.
	NewProblems      []debug.Problem `json:"newProblems,omitempty" doc:"Problems that appear."`
	ResolvedProblems []debug.Problem `json:"resolvedProblems,omitempty" doc:"Problems that disappear."`
}

// Empty reports whether no proxy and no Problem differs. Changes of proxies that only one of the
// states has count too.
func (r *Report) Empty() bool {
	return r.Changed == 0 && len(r.NewProxies)+len(r.GoneProxies)+len(r.NewProblems)+len(r.ResolvedProblems) == 0
}

// Group are proxies with the same changes.
type Group struct {
	// Proxies are their names, NAME.NAMESPACE, sorted.
	Proxies []string `json:"proxies"`
	// Changes are sorted in push order and by name.
	Changes []Change `json:"changes"`
	// OmittedChanges is the number of changes that are left out of a large report.
	OmittedChanges int `json:"omittedChanges,omitempty" doc:"Changes that are left out of a large report."`
	// Drains are the connections that end.
	Drains []Drain `json:"drains,omitempty"`
	// Calls are the calls that end elsewhere or otherwise.
	Calls []CallChange `json:"calls,omitempty"`
}

// Change is a resource that differs.
type Change struct {
	Type      string    `json:"type" doc:"CDS, LDS, RDS, EDS, ECDS or SDS"`
	Name      string    `json:"name"`
	Operation Operation `json:"operation" enum:"added,changed,removed"`
	// Objects are the changed objects that the resource is generated from.
	Objects []string `json:"objects,omitempty" doc:"Changed objects that the resource is generated from: KIND/NAMESPACE/NAME."`
	// Fields are the fields that differ, at most maxFields. OmittedFields is the number of the
	// others.
	Fields        []FieldChange `json:"fields,omitempty"`
	OmittedFields int           `json:"omittedFields,omitempty"`
}

// maxFields limits the fields of one Change.
const maxFields = 50

// Drain are connections that Envoy ends because of a change.
type Drain struct {
	// Resource is the listener or cluster, and Chain the filter chain; "" for all of the listener.
	Resource string `json:"resource"`
	Chain    string `json:"chain,omitempty"`
	// Effect describes what ends and when.
	Effect string `json:"effect"`
}

// CallChange is a call whose path differs.
type CallChange struct {
	Call   string   `json:"call"`
	Before []string `json:"before" doc:"The possible endings of the call, as of pilotctl explain."`
	After  []string `json:"after"`
}

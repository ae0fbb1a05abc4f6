package listener

import (
	"fmt"

	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// Conflict is connections that a service, or a VirtualService for it, does not get because another has them.
type Conflict struct {
	// Listener is the name of the one that it is about.
	Listener string
	// Service and Port are who gets nothing there. Rule is the VirtualService that asked for it, the zero Key if none did.
	Service *mesh.Service
	Port    mesh.Port
	Rule    config.Key
	// Winner is who has it, by itself or by WinnerRule; nil is the proxy itself.
	Winner     *mesh.Service
	WinnerRule config.Key
}

func (p *planner) conflict(at place, b bid, by, winner claimant) {
	p.plan.conflicts = append(p.plan.conflicts, Conflict{
		Listener: name(at.address, at.port), Service: b.service, Port: b.port, Rule: by.rule,
		Winner: winner.service, WinnerRule: winner.rule,
	})
}

// object is whose fault it is, as far as it is one.
func (c *Conflict) object() config.Key {
	if c.Rule != (config.Key{}) {
		return c.Rule
	}
	return c.Service.From
}

// problem tells of the Conflict and of more like it at other listeners.
func (c *Conflict) problem(more int) config.Problem {
	field := "spec.ports"
	if c.Rule != (config.Key{}) {
		field = "spec"
	}
	at := c.Listener
	if more > 0 {
		at = fmt.Sprintf("%s and %d more", at, more)
	}
	reason := fmt.Sprintf("port %d of %s: ", c.Port.Number, c.Service.Host)
	switch {
	case c.Winner == nil:
		reason += fmt.Sprintf("the proxy itself is at %s, so connections are not recognised", at)
	case c.WinnerRule != (config.Key{}):
		reason += fmt.Sprintf("connections at %s go where %s leads those to %s, which comes first", at, c.WinnerRule, c.Winner.Host)
	default:
		reason += fmt.Sprintf("connections at %s go to %s, which comes first and cannot be told from it", at, c.Winner.Host)
	}
	return config.Problem{Key: c.object(), Field: field, Reason: reason, Severity: config.Warning}
}

// conflictProblems gives a Problem for each who lost something to another, however many listeners it is about.
func conflictProblems(conflicts []Conflict) []config.Problem {
	type pair struct {
		object, winnerRule config.Key
		host               mesh.Hostname
		port               uint32
		winner             *mesh.Service
	}
	first, count := map[pair]int{}, map[pair]int{}
	var order []pair
	for i, c := range conflicts {
		k := pair{c.object(), c.WinnerRule, c.Service.Host, c.Port.Number, c.Winner}
		if count[k]++; count[k] == 1 {
			first[k] = i
			order = append(order, k)
		}
	}
	out := make([]config.Problem, len(order))
	for i, k := range order {
		out[i] = conflicts[first[k]].problem(count[k] - 1)
	}
	return out
}

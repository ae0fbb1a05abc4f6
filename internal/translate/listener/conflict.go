package listener

import (
	"fmt"

	"github.com/meshpilot/meshpilot/internal/model/code"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// Conflict is connections that a service, or a VirtualService for it, does not receive because
// another one takes precedence.
type Conflict struct {
	// Listener is the name of the listener.
	Listener string
	// Service and Port receive no connections there. Rule is the VirtualService that requested
	// them, or the zero Key if none did.
	Service *mesh.Service
	Port    mesh.Port
	Rule    config.Key
	// Winner receives them, by itself or by WinnerRule. If nil, the proxy itself uses the address,
	// or may not listen there, if Forbidden is set.
	Winner     *mesh.Service
	WinnerRule config.Key
	Forbidden  bool
}

// newConflict returns the Conflict that the service of b, or a rule for it, does not receive
// connections at a listener, because winner does. A zero winner is the proxy itself.
func newConflict(listener string, b servicePort, rule config.Key, winner candidate) Conflict {
	return Conflict{
		Listener: listener, Service: b.service, Port: b.port, Rule: rule,
		Winner: winner.service, WinnerRule: winner.rule,
	}
}

// object returns the object to report the conflict on: the VirtualService that loses, or else the
// object of the service.
func (c *Conflict) object() config.Key {
	if c.Rule != (config.Key{}) {
		return c.Rule
	}
	return c.Service.From
}

// problem returns a Warning about c.object() for the conflict, which also mentions the number more
// of equal conflicts at other listeners. The field is spec if a rule conflicts, otherwise
// spec.ports.
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
	case c.Forbidden:
		reason += fmt.Sprintf("proxies without privileges cannot listen at %s, so connections are not received", at)
	case c.Winner == nil:
		reason += fmt.Sprintf("the proxy itself is at %s, so connections are not recognised", at)
	case c.WinnerRule != (config.Key{}):
		reason += fmt.Sprintf("connections at %s go where %s leads those to %s, which takes precedence",
			at, c.WinnerRule, c.Winner.Host)
	default:
		reason += fmt.Sprintf(
			"connections at %s go to %s, which comes first and cannot be distinguished from it", at,
			c.Winner.Host)
	}
	return warning(c.object(), field, reason)
}

// conflictProblems returns one Problem for all conflicts between the same two services or rules on
// a port, however many listeners have them. They are in the order of the first conflict of each.
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

// warning returns a Warning with code ListenerConflict about a field of the object key.
func warning(key config.Key, field, reason string) config.Problem {
	return config.Problem{Code: code.ListenerConflict, Key: key, Field: field, Reason: reason, Severity: config.Warning}
}

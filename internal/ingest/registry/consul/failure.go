package consul

import (
	"fmt"
	"maps"
	"slices"

	"github.com/meshpilot/meshpilot/internal/model/code"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// handleFailure records the failed query x and returns the events for the Problem of the source, if
// that changed. The known services stay as they are. A query keeps the text of its first failure,
// unless an ACL error follows. After an ACL error the service, which gets a Problem, or the servers
// have answered. Synced is appended if nothing else has to answer.
func (r *run) handleFailure(x *result) mesh.Batch {
	text, class := errorText(x.err), classify(x.err)
	r.options.Logger.Debug("query of Consul failed", "source", r.Name(), "query", x.name, "error", x.err, "class",
		string(class))
	if r.failures[x.name] == "" || class == failedACL {
		r.failures[x.name] = text
	}
	r.countFailures()
	batch := r.emitFailure(nil)
	if x.name == serverService && class == failedACL {
		r.identified = true
	}
	if w := r.services[x.name]; w != nil && class == failedACL {
		w.answered = true // others must not wait for a service that the token may not read
		batch = r.problems.Emit(batch, "service "+x.name, []config.Problem{
			r.problem(x.name, "cannot be read: "+text+"; its last known instances stay in use"),
		})
	}
	return r.appendSynced(batch)
}

// clearFailure records that the query of this name succeeded and appends the change of the Problem.
// It does nothing if the query had not failed.
func (r *run) clearFailure(batch mesh.Batch, name string) mesh.Batch {
	if _, failed := r.failures[name]; !failed {
		return batch
	}
	delete(r.failures, name)
	r.countFailures()
	return r.emitFailure(batch)
}

// emitFailure appends an event for the Problem of the whole source if it changed. That is the error
// of the list of services, else of the servers, else of the first service by name that cannot be
// read. Without failures the Problem is cleared.
func (r *run) emitFailure(batch mesh.Batch) mesh.Batch {
	var list []config.Problem
	if text, failed := r.failures[""]; failed {
		effect := "the last known state stays in use"
		if r.listed == nil {
			effect = "its services are added when it can be read"
		}
		list = append(list, r.problem("", r.part.subject()+" cannot be read: "+text+"; "+effect))
	} else if text, failed := r.failures[serverService]; failed {
		list = append(list, r.problem("", "the servers cannot be read: "+text))
	} else if len(r.failures) > 0 {
		name := slices.Min(slices.Collect(maps.Keys(r.failures)))
		list = append(list, r.problem(name,
			"cannot be read: "+r.failures[name]+"; its last known instances stay in use"))
	}
	return r.problems.Emit(batch, "queries", list)
}

// heldProblem returns the Problem of held instances, which are kept although answer a does not list
// them. Without any, it returns a Problem if ACLs have removed all instances from a, and nil
// otherwise. The reason is the token if a is filtered, else that the servers lost their data.
func (r *run) heldProblem(name string, a answer, held int) []config.Problem {
	switch {
	case a.filtered && held > 0:
		return []config.Problem{r.problem(name, fmt.Sprintf(
			"the ACL token may no longer read %d of the instances; they stay in use", held))}
	case a.filtered && len(a.instances) == 0:
		return []config.Problem{r.problem(name, "the ACL token may not read the instances")}
	case held > 0:
		return []config.Problem{r.problem(name, fmt.Sprintf(
			"the Consul servers lost their data and do not list %d of the instances; they stay in use until they are registered again", held))}
	default:
		return nil
	}
}

// problem returns a Warning with this reason about a service. If name is "", it is about the source
// and has no object.
func (r *run) problem(name, reason string) config.Problem {
	p := config.Problem{Code: code.UnreadableSource, Origin: r.Name(), Reason: reason, Severity: config.Warning}
	if name != "" {
		p.Key = r.key(name)
	}
	return p
}

package credential

import (
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// serviceAccount is the kind of object that Problems of accounts are about. Objects of the kind are not read.
const serviceAccount api.Kind = "ServiceAccount"

// problemNews gives what came to be wrong, or was mended. s.mu is held.
func (s *Source) problemNews() mesh.Batch {
	now, origin := map[string][]config.Problem{}, ""
	if s.o.Cluster != "" {
		origin = "cluster " + string(s.o.Cluster)
	}
	needed := map[place]bool{}
	for k, i := range s.kept {
		p := s.placeOf(k)
		needed[p] = needed[p] || !i.fallback
	}
	for a, r := range s.rights {
		if reason := r.wrong(); reason != "" {
			now["right of "+a.String()] = []config.Problem{{
				Key: config.Key{Kind: serviceAccount, Namespace: a.Namespace, Name: a.Name}, Origin: origin, Severity: config.Warning, Reason: reason,
			}}
		}
	}
	for p, w := range s.watches {
		if reason := w.wrong(p); reason != "" && needed[p] {
			now["watch of "+config.Key(p).String()+" "+origin] = []config.Problem{{Key: config.Key(p), Origin: origin, Severity: config.Error, Reason: reason}}
		}
	}
	var batch mesh.Batch
	say := func(scope string, list []config.Problem) {
		batch = append(batch, mesh.Event{Source: s.Name(), Problems: &mesh.Problems{Scope: scope, List: list}})
	}
	for scope := range s.said.problems {
		if now[scope] == nil {
			say(scope, nil)
		}
	}
	for scope, list := range now {
		if !slices.Equal(list, s.said.problems[scope]) {
			say(scope, list)
		}
	}
	s.said.problems = now
	return batch
}

func (r *right) wrong() string {
	switch {
	case r.known && !r.may:
		return "proxies of this service account are given no private keys: it may not list the Secrets of its namespace " +
			"(a Role with get, list and watch on secrets, bound to it, would let it)"
	case !r.known && r.failure != nil:
		return "proxies of this service account are given no private keys yet: whether it may read Secrets cannot be asked: " + why(r.failure)
	default:
		return ""
	}
}

func (w *watch) wrong(p place) string {
	if w.failure == nil {
		return ""
	}
	reason := "cannot be read: " + why(w.failure)
	if apierrors.IsForbidden(w.failure) {
		plural := "secrets"
		if p.Kind == api.ConfigMap {
			plural = "configmaps"
		}
		reason = fmt.Sprintf("cannot be read: the control plane's service account needs a Role in the namespace %q with get, list and watch on %s",
			p.Namespace, plural)
	}
	if w.synced {
		reason += "; what was last read stays"
	}
	return reason
}

// why says why the API server was of no use, without what differs from try to try.
func why(err error) string {
	if status := apierrors.ReasonForError(err); status != "" {
		return string(status)
	}
	return "the API server does not answer"
}

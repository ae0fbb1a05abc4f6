package credential

import (
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// serviceAccount is the kind in the key of Problems about accounts. Objects of this kind are not
// read.
const serviceAccount api.Kind = "ServiceAccount"

// problemEvents returns the events for Problems of accounts and watches that appeared, changed or
// were resolved since the last call. It records them as sent. A watch has a Problem only while one
// of its objects is requested other than as a fallback. s.mu must be held.
func (s *Source) problemEvents() mesh.Batch {
	now, origin := map[string][]config.Problem{}, ""
	if s.o.Cluster != "" {
		origin = "cluster " + string(s.o.Cluster)
	}
	needed := map[watchScope]bool{}
	for k, i := range s.kept {
		p := s.scopeOf(k)
		needed[p] = needed[p] || !i.fallback
	}
	for a, r := range s.permissions {
		if reason := r.problemReason(); reason != "" {
			now["right of "+a.String()] = []config.Problem{{
				Key: config.Key{
					Kind:      serviceAccount,
					Namespace: a.Namespace,
					Name:      a.Name,
				}, Origin: origin, Severity: config.Warning, Reason: reason,
			}}
		}
	}
	for p, w := range s.watches {
		if reason := w.problemReason(p); reason != "" && needed[p] {
			now["watch of "+config.Key(p).String()+" "+origin] = []config.Problem{
				{Key: config.Key(p), Origin: origin, Severity: config.Error, Reason: reason},
			}
		}
	}
	return s.sent.problems.Replace(nil, now)
}

// problemReason returns why proxies of the account get no private keys, or "" if they do or the
// permission has not been reviewed yet.
func (r *permission) problemReason() string {
	switch {
	case r.known && !r.allowed:
		return "proxies of this service account are given no private keys: it may not list the Secrets of its namespace " +
			"(a Role with get, list and watch on secrets, bound to it, would let it)"
	case !r.known && r.failure != nil:
		return "proxies of this service account are given no private keys yet: whether it may read Secrets cannot be asked: " + describeError(
			r.failure,
		)
	default:
		return ""
	}
}

// problemReason returns why the objects of scope p cannot be read, with the permission that is
// missing, or "" if they can.
func (w *watch) problemReason(p watchScope) string {
	if w.failure == nil {
		return ""
	}
	reason := "cannot be read: " + describeError(w.failure)
	if apierrors.IsForbidden(w.failure) {
		plural := "secrets"
		if p.Kind == api.ConfigMap {
			plural = "configmaps"
		}
		reason = fmt.Sprintf(
			"cannot be read: the control plane's service account needs a Role in the namespace %q with get, list and watch on %s",
			p.Namespace,
			plural,
		)
	}
	if w.synced {
		reason += "; the last content read stays in use"
	}
	return reason
}

// describeError returns a description of an API server's error without the parts that differ
// between attempts.
func describeError(err error) string {
	if status := apierrors.ReasonForError(err); status != "" {
		return string(status)
	}
	return "the API server does not answer"
}

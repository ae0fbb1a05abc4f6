package credential

import (
	"context"
	"maps"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"golang.org/x/sync/errgroup"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// permission is the state of an account's permission. It is guarded by Source.mu. wanted is when a
// proxy of the account last requested something, asked when the account was last reviewed. allowed
// is the last answer; it counts only if known is set.
type permission struct {
	wanted, asked  time.Time
	known, allowed bool
	denials        int   // consecutive denials after the permission was granted
	failure        error // the error of the last review
}

// isAllowed reports whether the permission is known and granted. It returns false if r is nil.
func (r *permission) isAllowed() bool { return r != nil && r.known && r.allowed }

const (
	// reviewTimeout is the timeout of a review, reviewsAtOnce the limit of concurrent ones, and
	// reviewSpacing their minimum average interval over all accounts.
	reviewTimeout = 5 * time.Second
	reviewsAtOnce = 8
	reviewSpacing = 20 * time.Millisecond
	// denials is the number of consecutive denials that revoke a granted permission. An API server
	// that has just started denies everything until it has read its roles. The next review follows
	// after denialRecheck. doubtfulDenials applies if the server reports that it could not evaluate
	// all rules.
	denials, doubtfulDenials = 2, 10
	denialRecheck            = time.Second
)

// reviewPermissions reviews the permissions of accounts until the context ends: of new accounts at
// once, of the others periodically. At most reviewsAtOnce reviews run concurrently.
func (s *Source) reviewPermissions(ctx context.Context) {
	for ctx.Err() == nil {
		due, changed, pause := s.dueReviews()
		group, asking := errgroup.WithContext(ctx)
		group.SetLimit(reviewsAtOnce)
		for _, a := range due {
			group.Go(func() error { s.reviewAccount(asking, a); return nil })
		}
		_ = group.Wait() // never returns an error
		if len(due) > 0 {
			continue
		}
		select {
		case <-ctx.Done():
		case <-changed:
		case <-time.After(pause):
		}
	}
}

// dueReviews returns the accounts to review now and records them as asked. changed is closed when
// there may be more; pause is the time until the next one. An account with a denial that
// applyReview still ignores is reviewed sooner. Without a client there are none. It takes s.mu.
func (s *Source) dueReviews() (due []mesh.Account, changed <-chan struct{}, pause time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.client == nil {
		return nil, s.progress.Changed(), s.o.Recheck
	}
	now, every := s.o.Now(), max(s.o.Recheck, time.Duration(len(s.permissions))*reviewSpacing)
	pause = every
	for a, r := range s.permissions {
		every := every
		if r.denials > 0 {
			every = min(every, denialRecheck)
		}
		if rest := every - now.Sub(r.asked); rest > 0 {
			pause = min(pause, rest)
			continue
		}
		r.asked = now
		due = append(due, a)
	}
	return due, s.progress.Changed(), pause
}

// reviewAccount asks the API server, by a SubjectAccessReview, whether the account may list Secrets
// in its namespace, as Istio does. It records the answer and wakes Run; an account that no proxy
// has any longer is ignored. After a failure, which Options.Failed counts, the last answer stays in
// use. It takes s.mu.
func (s *Source) reviewAccount(ctx context.Context, a mesh.Account) {
	limit, cancel := context.WithTimeout(ctx, reviewTimeout)
	defer cancel()
	s.mu.Lock()
	client := s.client
	s.mu.Unlock()
	answer, err := client.Kubernetes.AuthorizationV1().
		SubjectAccessReviews().
		Create(limit, &authorizationv1.SubjectAccessReview{
			Spec: authorizationv1.SubjectAccessReviewSpec{
				User: a.User(),
				Groups: []string{
					"system:serviceaccounts",
					"system:serviceaccounts:" + a.Namespace,
					"system:authenticated",
				},
				ResourceAttributes: &authorizationv1.ResourceAttributes{
					Namespace: a.Namespace,
					Verb:      "list",
					Resource:  "secrets",
				},
			},
		}, metav1.CreateOptions{})
	if ctx.Err() != nil {
		return
	}
	s.mu.Lock()
	defer s.wake.Notify()
	defer s.mu.Unlock()
	r := s.permissions[a]
	if r == nil {
		return // no proxy of the account is connected any longer
	}
	if r.failure = err; err != nil { // the last answer stays in use
		s.o.Failed()
		return
	}
	r.applyReview(answer.Status)
}

// applyReview records an answer. It ignores a denial of a granted permission until there have been
// as many in a row as the constant denials says, or doubtfulDenials if the answer has an
// EvaluationError. Any other answer resets the count of denials.
func (r *permission) applyReview(answer authorizationv1.SubjectAccessReviewStatus) {
	may, needed := answer.Allowed && !answer.Denied, denials
	if answer.EvaluationError != "" {
		needed = doubtfulDenials
	}
	if r.isAllowed() && !may {
		if r.denials++; r.denials < needed {
			return
		}
	}
	r.known, r.allowed, r.denials = true, may, 0
}

// permissionEvents returns the events for permissions that were granted, denied or forgotten since
// the last call, logs new answers and records them as sent. s.mu must be held.
func (s *Source) permissionEvents() mesh.Batch {
	var batch mesh.Batch
	for a, r := range s.permissions {
		if was, known := s.sent.permissions[a]; r.known && (!known || was != r.allowed) {
			s.sent.permissions[a] = r.allowed
			batch = append(
				batch,
				mesh.Event{Source: s.Name(), SecretAccess: &mesh.SecretAccess{Account: a, Allowed: r.allowed}},
			)
			s.o.Log.Info("private keys of its namespace", "account", a.String(), "given", r.allowed)
		}
	}
	for a := range maps.Keys(s.sent.permissions) {
		if s.permissions[a] == nil {
			delete(s.sent.permissions, a)
			batch = append(
				batch,
				mesh.Event{Op: mesh.Delete, Source: s.Name(), SecretAccess: &mesh.SecretAccess{Account: a}},
			)
		}
	}
	return batch
}

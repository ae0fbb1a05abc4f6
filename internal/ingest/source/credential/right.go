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

// right is what is known of an account. Source.mu guards it.
type right struct {
	wanted, asked time.Time
	known, may    bool
	doubted       int   // denials in a row of what was allowed
	failure       error // of asking, last time
}

// allowed says that the account is known to have the right.
func (r *right) allowed() bool { return r != nil && r.known && r.may }

const (
	// reviewPatience is how long the API server may take for an answer, reviewsAtOnce how many are waited for, and reviewSpacing
	// how far apart the questions are on average, however many accounts there are.
	reviewPatience = 5 * time.Second
	reviewsAtOnce  = 8
	reviewSpacing  = 20 * time.Millisecond
	// denials is how often in a row an API server must deny what it has allowed: one that has just been started says no to
	// everything until it has read its roles. The question is asked again after denialRecheck. Where it says itself that it could not
	// evaluate all rules, it takes more of them.
	denials, doubtfulDenials = 2, 10
	denialRecheck            = time.Second
)

// review asks for rights until the context ends: for new ones at once, for the others again and again.
func (s *Source) review(ctx context.Context) {
	for ctx.Err() == nil {
		due, changed, pause := s.dueReviews()
		group, asking := errgroup.WithContext(ctx)
		group.SetLimit(reviewsAtOnce)
		for _, a := range due {
			group.Go(func() error { s.ask(asking, a); return nil })
		}
		_ = group.Wait() // none fails
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

// dueReviews gives the accounts that are to be asked for now; a channel that is closed when there may be others, and when the next
// one is due otherwise.
func (s *Source) dueReviews() (due []mesh.Account, changed <-chan struct{}, pause time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.client == nil {
		return nil, s.progress, s.o.Recheck
	}
	now, every := s.o.Now(), max(s.o.Recheck, time.Duration(len(s.rights))*reviewSpacing)
	pause = every
	for a, r := range s.rights {
		every := every
		if r.doubted > 0 {
			every = min(every, denialRecheck)
		}
		if rest := every - now.Sub(r.asked); rest > 0 {
			pause = min(pause, rest)
			continue
		}
		r.asked = now
		due = append(due, a)
	}
	return due, s.progress, pause
}

// ask asks the API server whether an account may list the Secrets of its namespace, which is what Istio asks.
func (s *Source) ask(ctx context.Context, a mesh.Account) {
	limit, cancel := context.WithTimeout(ctx, reviewPatience)
	defer cancel()
	s.mu.Lock()
	client := s.client
	s.mu.Unlock()
	answer, err := client.Kubernetes.AuthorizationV1().SubjectAccessReviews().Create(limit, &authorizationv1.SubjectAccessReview{
		Spec: authorizationv1.SubjectAccessReviewSpec{
			User:               a.User(),
			Groups:             []string{"system:serviceaccounts", "system:serviceaccounts:" + a.Namespace, "system:authenticated"},
			ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: a.Namespace, Verb: "list", Resource: "secrets"},
		},
	}, metav1.CreateOptions{})
	if ctx.Err() != nil {
		return
	}
	s.mu.Lock()
	defer s.rouse()
	defer s.mu.Unlock()
	r := s.rights[a]
	if r == nil {
		return // nobody is interested any more
	}
	if r.failure = err; err != nil { // what was known stays
		s.o.Failed()
		return
	}
	r.take(answer.Status)
}

// take takes an answer in.
func (r *right) take(answer authorizationv1.SubjectAccessReviewStatus) {
	may, needed := answer.Allowed && !answer.Denied, denials
	if answer.EvaluationError != "" {
		needed = doubtfulDenials
	}
	if r.allowed() && !may {
		if r.doubted++; r.doubted < needed {
			return
		}
	}
	r.known, r.may, r.doubted = true, may, 0
}

// rightNews gives what is news about rights. s.mu is held.
func (s *Source) rightNews() mesh.Batch {
	var batch mesh.Batch
	for a, r := range s.rights {
		if was, known := s.said.rights[a]; r.known && (!known || was != r.may) {
			s.said.rights[a] = r.may
			batch = append(batch, mesh.Event{Source: s.Name(), SecretAccess: &mesh.SecretAccess{Account: a, Allowed: r.may}})
			s.o.Log.Info("private keys of its namespace", "account", a.String(), "given", r.may)
		}
	}
	for a := range maps.Keys(s.said.rights) {
		if s.rights[a] == nil {
			delete(s.said.rights, a)
			batch = append(batch, mesh.Event{Op: mesh.Delete, Source: s.Name(), SecretAccess: &mesh.SecretAccess{Account: a}})
		}
	}
	return batch
}

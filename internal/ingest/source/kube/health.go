package kube

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/code"
	"github.com/meshpilot/meshpilot/internal/model/config"
)

// Health is the state of reading one kind.
type Health struct {
	Kind      api.Kind
	Namespace string // "" for all namespaces
	// Installed is false for a custom kind that the API server does not serve.
	Installed bool
	// Listed is set after the first complete list.
	Listed bool
	// Objects is the number of known objects, including invalid ones.
	Objects int
	// Err is the reason why the kind cannot be read, or nil. Since is the time of the first
	// failure.
	Err   error
	Since time.Time
}

// Health returns the state of the definitions and then of each kind and namespace, in the order of
// the table of kinds. Kinds that are not installed are included.
func (s *Source) Health() []Health {
	var list []Health
	s.store.forEachStore(func(x *kindStore) {
		h := Health{
			Kind:      x.kind.Kind,
			Namespace: x.namespace,
			Installed: x.installed || !x.kind.Custom,
			Listed:    x.listed,
			Objects:   len(x.objects),
			Err:       x.err,
		}
		if x.err != nil {
			h.Since = x.since
		}
		list = append(list, h)
	})
	return list
}

// Unreadable returns why kinds cannot be read, and since when the first of them that were read
// before cannot be, zero without any. It returns zero values if all can be read, and until a
// failure of connections has lasted for Options.Grace.
func (s *Source) Unreadable() (since time.Time, reason string) {
	var reasons []string
	for _, f := range s.store.failures(s.o.Clock.Now(), s.o.Grace, nil) {
		reasons = append(reasons, f.problem(s.Name()).Reason)
	}
	if len(reasons) == 0 {
		return time.Time{}, ""
	}
	for _, h := range s.Health() {
		if h.Err != nil && h.Listed && (since.IsZero() || h.Since.Before(since)) {
			since = h.Since
		}
	}
	return since, strings.Join(reasons, "; ")
}

// Waiting returns the kinds that have not been listed yet, with reasons, separated by commas.
// Custom kinds that are not installed are left out, and all of them until the definitions are
// listed. It returns "" if all are listed. It takes the lock of the store.
func (s *Source) Waiting() string {
	var list []string
	for _, x := range s.store.unlistedShards(false) {
		text := x.title
		s.store.mu.Lock()
		if x.err != nil {
			text += " (" + errorWithoutURL(x.err) + ")"
		}
		s.store.mu.Unlock()
		list = append(list, text)
	}
	return strings.Join(list, ", ")
}

// unlistedShards returns the shards that have not been listed yet. Custom kinds that are not
// installed are left out, and all custom kinds until the definitions are listed. If impatient is
// set, kinds without which the control plane can start are left out too.
func (s *store) unlistedShards(impatient bool) []*kindStore {
	var list []*kindStore
	undefined := false
	s.forEachStore(func(x *kindStore) {
		waits := !x.listed
		switch {
		case x == s.definitions:
			undefined = waits
		case x.kind.Custom:
			// the installed kinds are not known before that
			waits = x.installed && waits && !undefined
		}
		dispensable := isDispensable(x.kind.Kind, isDenied(x.err)) || slices.Contains(s.optionalKinds, x.kind.Kind)
		if waits && !(impatient && dispensable) {
			list = append(list, x)
		}
	})
	return list
}

// shardsToRelist returns the shards that must be listed again now, to confirm or refute the loss of
// objects. Each is returned once.
func (s *store) shardsToRelist(now time.Time) []*kindStore {
	var list []*kindStore
	s.forEachStore(func(x *kindStore) {
		if x.relistDue && !now.Before(x.shrinkDeadline) {
			x.relistDue = false
			list = append(list, x)
		}
	})
	return list
}

// deadlines returns the times at which a failure becomes a Problem or a shard must be listed again.
// They are in no particular order.
func (s *store) deadlines(grace time.Duration) []time.Time {
	var at []time.Time
	s.forEachStore(func(x *kindStore) {
		if x.err != nil {
			at = append(at, x.since.Add(grace))
		}
		if x.relistDue {
			at = append(at, x.shrinkDeadline)
		}
	})
	return at
}

// failure is a reason why kinds cannot be read.
type failure struct {
	reason string
	kinds  []string
	whole  bool // applies to all kinds
}

// problem returns the failure as an Error about the source, with the affected kinds.
func (f failure) problem(source string) config.Problem {
	what := strings.Join(f.kinds, ", ")
	if f.whole {
		what = "the API server"
	}
	return config.Problem{Code: code.UnreadableSource, Origin: source, Severity: config.Error,
		Reason: what + " cannot be read: " + f.reason}
}

// failures returns the current failures, one per reason. A failure of connections is included only
// after it has lasted for grace. A failure in told, the previous result, stays as it is while it
// has no other kinds, or if it was about all kinds. Kinds recover one after the other, and each
// change would be another Problem.
func (s *store) failures(now time.Time, grace time.Duration, told []failure) []failure {
	var list []failure
	followed := 0
	s.forEachStore(func(x *kindStore) {
		if x == s.definitions || x.installed || !x.kind.Custom {
			followed++
		}
		if x.err == nil || !isDenied(x.err) && now.Sub(x.since) < grace {
			return
		}
		reason := errorWithoutURL(x.err) + "; the last content read stays in use"
		if !x.listed {
			reason = errorWithoutURL(x.err) + "; nothing was read yet"
		}
		i := slices.IndexFunc(list, func(f failure) bool { return f.reason == reason })
		if i < 0 {
			i = len(list)
			list = append(list, failure{reason: reason})
		}
		list[i].kinds = append(list[i].kinds, x.title)
	})
	for i, f := range list {
		list[i].whole = len(f.kinds) == followed && followed > 1
		for _, old := range told {
			if old.reason == f.reason &&
				(old.whole || !slices.ContainsFunc(f.kinds,
					func(k string) bool { return !slices.Contains(old.kinds, k) })) {
				list[i] = old
			}
		}
	}
	return list
}

// shrinkProblems returns an Error for each shard with objects that are kept although the last list
// lacked them, nil if there are none.
func (s *store) shrinkProblems() []config.Problem {
	var list []config.Problem
	s.forEachStore(func(x *kindStore) {
		if n := x.missingObjects(); n > 0 {
			list = append(list, config.Problem{
				Code:     code.UnreadableSource,
				Origin:   s.name,
				Severity: config.Error,
				Reason: fmt.Sprintf(
					"a list of %s lacks %d of %d objects; they stay in use until another one lacks them too",
					x.title, n, len(x.objects)),
			})
		}
	})
	return list
}

// missingObjects returns the number of objects that are kept although the last list lacked them.
// Without a pending confirmation there are none.
func (s *kindStore) missingObjects() int {
	n := 0
	if s.shrinkDeadline.IsZero() {
		return n
	}
	for _, e := range s.objects {
		if e.missing {
			n++
		}
	}
	return n
}

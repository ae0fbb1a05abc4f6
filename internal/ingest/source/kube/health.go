package kube

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
)

// Health is how it stands with one kind.
type Health struct {
	Kind      api.Kind
	Namespace string // empty: all of them
	// Installed is false for a custom kind that the API server does not have.
	Installed bool
	// Listed says that it was read once.
	Listed  bool
	Objects int
	// Err is why it cannot be read, nil if it can, and Since the first time that it could not.
	Err   error
	Since time.Time
}

// Health gives how it stands with each kind, in the order of the table of kinds.
func (s *Source) Health() []Health {
	var list []Health
	s.store.each(func(x *shard) {
		h := Health{Kind: x.kind.Kind, Namespace: x.namespace, Installed: x.installed || !x.kind.Custom, Listed: x.listed, Objects: len(x.objects), Err: x.err}
		if x.err != nil {
			h.Since = x.since
		}
		list = append(list, h)
	})
	return list
}

// Waiting names the kinds that were not read yet, and says why; empty if there are none.
func (s *Source) Waiting() string {
	var list []string
	for _, x := range s.store.waiting(false) {
		text := x.title
		s.store.mu.Lock()
		if x.err != nil {
			text += " (" + brief(x.err) + ")"
		}
		s.store.mu.Unlock()
		list = append(list, text)
	}
	return strings.Join(list, ", ")
}

// waiting gives the shards that were not read yet, without those that can be done without if nobody wants to wait for them any more.
func (s *store) waiting(impatient bool) []*shard {
	var list []*shard
	undefined := false
	s.each(func(x *shard) {
		waits := !x.listed
		switch {
		case x == s.definitions:
			undefined = waits
		case x.kind.Custom:
			waits = x.installed && waits && !undefined // which kinds there are is not known before that
		}
		if waits && !(impatient && (dispensable(x.kind.Kind) || slices.Contains(s.dispensable, x.kind.Kind))) {
			list = append(list, x)
		}
	})
	return list
}

// doubtful gives the shards whose doubts are to be settled now.
func (s *store) doubtful(now time.Time) []*shard {
	var list []*shard
	s.each(func(x *shard) {
		if x.doubting && !now.Before(x.doubted) {
			x.doubting = false
			list = append(list, x)
		}
	})
	return list
}

// deadlines are when something may be due: what fails becomes a Problem, and doubts are settled.
func (s *store) deadlines(grace time.Duration) []time.Time {
	var at []time.Time
	s.each(func(x *shard) {
		if x.err != nil {
			at = append(at, x.since.Add(grace))
		}
		if x.doubting {
			at = append(at, x.doubted)
		}
	})
	return at
}

// failure is a reason why kinds cannot be read.
type failure struct {
	reason string
	kinds  []string
	whole  bool // all kinds
}

// problem says it to people.
func (f failure) problem(source string) config.Problem {
	what := strings.Join(f.kinds, ", ")
	if f.whole {
		what = "the API server"
	}
	return config.Problem{Origin: source, Severity: config.Error, Reason: what + " cannot be read: " + f.reason}
}

// failures gives what cannot be read, each reason once. A failure that was told already stays as it was told as long as it lasts
// for one of its kinds: they mend one after the other, and that is no news.
func (s *store) failures(now time.Time, grace time.Duration, told []failure) []failure {
	var list []failure
	followed := 0
	s.each(func(x *shard) {
		if x == s.definitions || x.installed || !x.kind.Custom {
			followed++
		}
		if x.err == nil || !refused(x.err) && now.Sub(x.since) < grace {
			return
		}
		reason := brief(x.err) + "; what was read last stays in use"
		if !x.listed {
			reason = brief(x.err) + "; nothing was read yet"
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
			if old.reason == f.reason && (old.whole || !slices.ContainsFunc(f.kinds, func(k string) bool { return !slices.Contains(old.kinds, k) })) {
				list[i] = old
			}
		}
	}
	return list
}

// doubts gives what lists lacked and is kept.
func (s *store) doubts() []config.Problem {
	var list []config.Problem
	s.each(func(x *shard) {
		if n := x.missing(); n > 0 {
			list = append(list, config.Problem{Origin: s.name, Severity: config.Error, Reason: fmt.Sprintf(
				"a list of %s lacks %d of %d objects; they stay in use until another one lacks them too", x.title, n, len(x.objects))})
		}
	})
	return list
}

// missing gives how many objects are kept that a list lacked.
func (s *shard) missing() int {
	n := 0
	if s.doubted.IsZero() {
		return n
	}
	for _, e := range s.objects {
		if e.missing {
			n++
		}
	}
	return n
}

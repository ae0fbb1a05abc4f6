package main

import (
	"context"
	"fmt"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/meshpilot/meshpilot/samples/bookinfo"
	"github.com/meshpilot/meshpilot/samples/bookinfo/mesh"
	"github.com/meshpilot/meshpilot/samples/bookinfo/screen"
)

const (
	// effectTime bounds the wait for a change to show in answers.
	effectTime = 20 * time.Second
	// pollEvery is how long settle waits after an answer of before the change.
	pollEvery = 2 * time.Millisecond
	// countWorkers is how many requests are under way at once when many are counted.
	countWorkers = 4
	// inARow is how many like answers show that a change has arrived: where two versions share the traffic evenly, as
	// many of one come by chance once in thirty million times.
	inARow = 25
)

// stage is what scenes play on.
type stage struct {
	mesh   *mesh.Mesh
	client *mesh.Caller // requests from the pod "client", through its sidecar
	screen *screen.Screen
	// binaries is the directory of pilotctl, dir that of the demo.
	binaries, dir string
	failed        int // verdicts that were not as expected
}

// expect gives a verdict.
func (s *stage) expect(ok bool, what, expected, saw string) {
	if !ok {
		s.failed++
	}
	s.screen.Verdict(ok, what, expected, saw)
}

// apply applies a rule of the sample, and shows it.
func (s *stage) apply(name string) error { return s.applyFile(bookinfo.RulePath(name)) }

// applyFile applies the rules in a file of the sample, and shows them. Without Kubernetes they are
// copied into the folder that the control plane reads.
func (s *stage) applyFile(path string) error {
	text, err := bookinfo.Rule(path)
	if err != nil {
		return err
	}
	command := "kubectl apply -f samples/bookinfo/%s"
	if s.mesh.Consul != nil {
		command = "cp samples/bookinfo/%s config/networking/"
	}
	s.screen.Say(command, path)
	shown, left := excerpt(text)
	s.screen.Quote(shown, left, "more like it")
	return s.mesh.Rules.Apply(text)
}

func (s *stage) remove(kind, name string) error {
	s.screen.Say("kubectl delete %s %s", strings.ToLower(kind), name)
	return s.mesh.Rules.Delete(kind, name)
}

// probe is a request whose answers show whether a change has arrived.
type probe struct {
	url    string
	header []string
	// want is what an answer is like afterwards, and times how many in a row there must be.
	want  func(mesh.Answer) bool
	times int
}

// settle sends a probe until the change shows, and says how long after the change the first answer of the kind was
// asked for.
func (s *stage) settle(ctx context.Context, within time.Duration, p probe) error {
	since, err := s.awaitProbe(ctx, within, p)
	if err == nil {
		s.screen.Say("in effect after %s", since.Round(time.Millisecond))
	}
	return err
}

// awaitProbe sends a probe until p.times answers in a row are as wanted. It returns the time until the
// first of them was asked for.
func (s *stage) awaitProbe(ctx context.Context, within time.Duration, p probe) (time.Duration, error) {
	begin := time.Now()
	var since time.Duration
	for row := 0; row < p.times; {
		asked := time.Since(begin)
		a := s.client.Get(ctx, p.url, p.header...)
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		if p.want(a) {
			if row == 0 {
				since = asked
			}
			row++
			continue
		}
		if asked > within {
			return 0, fmt.Errorf("the change took no effect within %s; the last answer of %s was %s", within, p.url, a)
		}
		row = 0
		pause(ctx, pollEvery)
	}
	return since, nil
}

// only wants answers of these versions of reviews.
func only(versions ...string) func(mesh.Answer) bool {
	return func(a mesh.Answer) bool {
		for _, v := range versions {
			if a.Version() == v {
				return true
			}
		}
		return false
	}
}

// counts is how many answers came from each version of reviews; "" is no proper answer.
type counts map[string]int

func (s *stage) count(ctx context.Context, n int, url string, header ...string) (counts, error) {
	var mu sync.Mutex
	seen, sample := counts{}, ""
	work := make(chan struct{}, n)
	for range n {
		work <- struct{}{}
	}
	close(work)
	var workers sync.WaitGroup
	for range countWorkers {
		workers.Go(func() {
			for range work {
				a := s.client.Get(ctx, url, header...)
				mu.Lock()
				seen[a.Version()]++
				if a.Version() == "" {
					sample = a.String()
				}
				mu.Unlock()
			}
		})
	}
	workers.Wait()
	if sample != "" {
		s.screen.Say("an answer that was not one of reviews: %s", sample)
	}
	return seen, ctx.Err()
}

// are reports whether exactly these versions answered.
func (c counts) are(versions ...string) bool {
	for _, v := range versions {
		if c[v] == 0 {
			return false
		}
	}
	return len(c) == len(versions)
}

func (c counts) String() string {
	var parts []string
	for version, n := range c {
		if version == "" {
			version = "failed"
		}
		parts = append(parts, fmt.Sprintf("%s %d", version, n))
	}
	sort.Strings(parts)
	return strings.Join(parts, ", ")
}

package localmesh

import (
	"context"
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"time"
)

// pollInterval is how often the manifests are examined for changes.
const pollInterval = 500 * time.Millisecond

// followManifests applies changes of the manifests since start read them, until ctx is canceled. It
// compares them every pollInterval. Manifests that cannot be read are logged, and the former ones
// stay in use.
func (s *Supervisor) followManifests(ctx context.Context) {
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	before := s.read
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		now := fingerprint(s.options.Manifests)
		if now == before {
			continue
		}
		before = now
		m, err := readManifests(s.options.Manifests)
		if err != nil {
			s.log.Error("reading the manifests failed, the former ones stay in use", "error", err)
			continue
		}
		if err := s.writeFiles(m); err != nil {
			s.log.Error("writing the configuration failed", "error", err)
		}
		s.reconcile(ctx, m)
	}
}

// fingerprint returns a text that changes when a manifest is added, removed or modified. It
// considers names, sizes and modification times, not contents.
func fingerprint(paths []string) string {
	var b strings.Builder
	for _, path := range paths {
		names, err := manifestFiles(path)
		fmt.Fprintln(&b, err)
		for _, name := range names {
			if info, err := os.Stat(name); err == nil {
				fmt.Fprintln(&b, name, info.Size(), info.ModTime().UnixNano())
			}
		}
	}
	return b.String()
}

// reconcile starts the workloads of the manifests that do not run, stops workloads that are no
// longer in them, and restarts changed ones. It does not wait for them, and locks s.mu. Workloads
// of a file that cannot be read stay, and so do workloads of pilotctl run, which precede a
// Deployment's of the same name. Problems are logged and replace the earlier ones.
func (s *Supervisor) reconcile(ctx context.Context, m *manifests) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.manifests, s.problems = m, m.problems
	for _, p := range m.problems {
		s.log.Warn("problem in the manifests", "problem", p)
	}
	wanted := map[string]WorkloadSpec{}
	for _, spec := range m.workloads {
		wanted[spec.FullName()] = spec
	}
	stopped := map[string]*workload{}
	for name, w := range maps.All(s.workloads) {
		spec, ok := wanted[name]
		switch {
		case w.spec.file == "": // of pilotctl run
			if ok {
				s.problems = append(s.problems, fmt.Sprintf("%s: Deployment %s/%s: pilotctl run has a workload %s",
					spec.file, spec.Namespace, spec.deployment, name))
				delete(wanted, name)
			}
		case !ok && m.broken[w.spec.file], ok && reflect.DeepEqual(spec, w.spec):
			delete(wanted, name)
		default:
			s.log.Info("stopping a workload", "workload", name)
			w.cancel()
			stopped[name] = w
			delete(s.workloads, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		_, _ = s.addresses.assign(name) // by name, whichever starts first; startNode returns the error
		s.startWorkload(ctx, wanted[name], stopped[name])
	}
}

// startWorkload records a workload and starts it in the background, after the workload before has
// ended if that is not nil. Its first result is added to the progress. s.mu must be locked.
func (s *Supervisor) startWorkload(ctx context.Context, spec WorkloadSpec, before *workload) {
	w := newWorkload(spec)
	ctx, w.cancel = context.WithCancel(ctx)
	s.workloads[spec.FullName()] = w
	go func() {
		if before != nil {
			<-before.ended
		}
		s.runWorkload(ctx, w)
	}()
	go func() {
		select {
		case <-w.settled:
		case <-ctx.Done():
			return
		}
		state, reason, _ := w.current()
		s.progress.add(strings.TrimSuffix(fmt.Sprintf("%s: %s: %s", spec.FullName(), state, reason), ": "))
		close(w.announced)
	}()
}

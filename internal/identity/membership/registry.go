package discovery

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/meshpilot/meshpilot/internal/identity/authenticate"
	"github.com/meshpilot/meshpilot/internal/ingest/registry/remote"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/spiffe"
	"github.com/meshpilot/meshpilot/internal/snapshot"
)

// membership knows which service accounts have a workload: a pod, a WorkloadEntry, an endpoint, or a WorkloadGroup that workloads may
// join. An identity whose last workload was removed has no more use for certificates.
type membership struct {
	current func() *snapshot.Snapshot
	// system is the control plane's namespace. Its accounts always count: they are those of operators and of other control planes, which
	// no registry lists.
	system string
	// grace is how long an account counts as a member after its last workload was removed. Less than 0: for ever.
	grace time.Duration
	// unsynced names the clusters whose workloads are not known yet.
	unsynced func() []string
	now      func() time.Time

	mu      sync.Mutex
	of      *snapshot.Snapshot
	members map[member]bool
	removed map[member]time.Time // accounts whose last workload was removed within the grace period
}

// member is a service account of the mesh's own trust domain or one of its aliases.
type member struct{ namespace, name string }

// membershipInterval is how often snapshots are compared, to know since when an account has had no workload.
const membershipInterval = 5 * time.Second

// run records removals until the context ends. Without it the grace period would begin with the first question.
func (m *membership) run(ctx context.Context, interval time.Duration) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			m.mu.Lock()
			m.refresh()
			m.mu.Unlock()
		}
	}
}

// has reports whether a service account has a workload now.
func (m *membership) has(a spiffe.Account) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.refresh()
	return a.Namespace == m.system || m.members[member{a.Namespace, a.Name}]
}

// check returns nil if a service account has a workload, or had one within the grace period. The error wraps
// authenticate.ErrUnavailable if the account may have one in a cluster that is not in sync.
func (m *membership) check(a spiffe.Account) error {
	if m.grace < 0 || m.has(a) {
		return nil
	}
	m.mu.Lock()
	at, removed := m.removed[member{a.Namespace, a.Name}]
	m.mu.Unlock()
	if removed && m.now().Sub(at) <= m.grace {
		return nil
	}
	if missing := m.unsynced(); len(missing) > 0 {
		return fmt.Errorf("%w: workloads of clusters %s are not known yet", authenticate.ErrUnavailable, strings.Join(missing, ", "))
	}
	return fmt.Errorf("no workload has the service account %s of namespace %s", a.Name, a.Namespace)
}

// refresh reads the newest snapshot, if it has not been read. m.mu is held.
func (m *membership) refresh() {
	newest := m.current()
	if newest == m.of {
		return
	}
	members, now := membersOf(newest), m.now()
	if m.removed == nil {
		m.removed = map[member]time.Time{}
	}
	for a := range m.members {
		if !members[a] {
			m.removed[a] = now
		}
	}
	for a, at := range m.removed {
		if members[a] || now.Sub(at) > m.grace {
			delete(m.removed, a)
		}
	}
	m.of, m.members = newest, members
}

// membersOf returns the service accounts that have a workload in a snapshot.
func membersOf(s *snapshot.Snapshot) map[member]bool {
	set := map[member]bool{}
	domains := s.Settings.TrustDomains()
	seen := map[string]bool{} // many workloads have one account
	add := func(id string) {
		if seen[id] {
			return
		}
		seen[id] = true
		if a, ok := accountOf(id); ok && slices.Contains(domains, a.TrustDomain) {
			set[member{a.Namespace, a.Name}] = true
		}
	}
	for id := range s.WorkloadAccounts() {
		add(id)
	}
	for _, service := range s.Services() {
		for _, id := range s.Endpoints(service.ServiceKey).Accounts() {
			add(id)
		}
	}
	for _, c := range s.Configs(api.WorkloadGroup) {
		if g, ok := c.Spec.(*networking.WorkloadGroup); ok {
			set[member{c.Namespace, cmp.Or(g.GetTemplate().GetServiceAccount(), "default")}] = true
		}
	}
	for _, c := range s.Configs(api.WorkloadEntry) { // of those without an IP address there is nothing else
		if w, ok := c.Spec.(*networking.WorkloadEntry); ok && w.GetServiceAccount() != "" {
			set[member{c.Namespace, w.GetServiceAccount()}] = true
		}
	}
	return set
}

// newMembership makes the membership of the control plane's own snapshots.
func (s *server) newMembership() *membership {
	return &membership{
		current: s.current.Load, system: s.options.Namespace, grace: s.options.Authority.RenewalGrace, now: time.Now,
		unsynced: s.unsyncedClusters,
	}
}

// unsyncedClusters names the remote clusters that are known and have never been in sync.
func (s *server) unsyncedClusters() (list []string) {
	if s.clusters == nil {
		return nil
	}
	for _, c := range s.clusters.Status() {
		if c.State != remote.Synced {
			list = append(list, string(c.Cluster))
		}
	}
	return list
}

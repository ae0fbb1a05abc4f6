// Package membership decides which service accounts may have certificates: those with a workload.
//
// An identity whose last workload was removed has no further use for certificates, so the authority
// stops renewing them after a grace period. The input is the newest snapshot; start with
// [Registry.Check].
package membership

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
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/spiffe"
	"github.com/meshpilot/meshpilot/internal/snapshot"
)

// Options configure a Registry.
type Options struct {
	// Snapshot returns the newest snapshot.
	Snapshot func() *snapshot.Snapshot
	// SystemNamespace is the control plane's namespace. Its accounts are always members: operators
	// and other control planes use them, and no registry lists those.
	SystemNamespace string
	// Grace is how long an account remains a member after its last workload was removed. If
	// negative, the account remains a member permanently.
	Grace time.Duration
	// UnsyncedClusters returns the names of the clusters whose workloads are not known yet.
	UnsyncedClusters func() []string
	// Now returns the time. If nil, time.Now is used.
	Now func() time.Time
}

// Registry knows which service accounts have a workload: a pod, a WorkloadEntry, an endpoint, or a
// WorkloadGroup that workloads may join. It is safe for concurrent use.
type Registry struct {
	options  Options
	interval time.Duration

	mu      sync.Mutex
	read    *snapshot.Snapshot // the snapshot that members are of
	members map[account]bool
	removed map[account]time.Time // when the last workload was removed; for Grace at most
}

// account is a service account of the mesh's own trust domain or of one of its aliases.
type account struct{ namespace, name string }

// refreshInterval bounds the error of the recorded times of removal.
const refreshInterval = 5 * time.Second

// New returns a Registry that has read no snapshot yet. It reads the newest one at each query and
// in Run. If Now is nil, it is time.Now; Snapshot and UnsyncedClusters must be set.
func New(o Options) *Registry {
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Registry{options: o, interval: refreshInterval, removed: map[account]time.Time{}}
}

// Run records every interval which accounts have lost their last workload, until the context ends.
// Without it the grace period of an account would begin with the first query after the removal.
func (r *Registry) Run(ctx context.Context) {
	tick := time.NewTicker(r.interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			r.mu.Lock()
			r.refresh()
			r.mu.Unlock()
		}
	}
}

// HasWorkload reports whether a service account has a workload in the newest snapshot, or is of the
// system namespace. The grace period does not apply, and a.TrustDomain is ignored.
func (r *Registry) HasWorkload(a spiffe.Account) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refresh()
	return a.Namespace == r.options.SystemNamespace || r.members[account{a.Namespace, a.Name}]
}

// Check returns nil if HasWorkload accepts the service account or did so within the grace period,
// and always if Grace is negative. Otherwise it returns an error, which wraps
// authenticate.ErrUnavailable if the workloads of some cluster are not known yet.
func (r *Registry) Check(a spiffe.Account) error {
	if r.options.Grace < 0 || r.HasWorkload(a) {
		return nil
	}
	r.mu.Lock()
	at, removed := r.removed[account{a.Namespace, a.Name}]
	r.mu.Unlock()
	if removed && r.options.Now().Sub(at) <= r.options.Grace {
		return nil
	}
	if missing := r.options.UnsyncedClusters(); len(missing) > 0 {
		return fmt.Errorf("%w: workloads of clusters %s are not known yet", authenticate.ErrUnavailable,
			strings.Join(missing, ", "))
	}
	return fmt.Errorf("no workload has the service account %s of namespace %s", a.Name, a.Namespace)
}

// refresh reads the newest snapshot and records which accounts have a workload, and when the other
// accounts lost their last one. Times older than the grace period are deleted. It does nothing if
// it has read that snapshot already. r.mu must be held.
func (r *Registry) refresh() {
	newest := r.options.Snapshot()
	if newest == r.read {
		return
	}
	members, now := accountsWithWorkloads(newest), r.options.Now()
	for a := range r.members {
		if !members[a] {
			r.removed[a] = now
		}
	}
	for a, at := range r.removed {
		if members[a] || now.Sub(at) > r.options.Grace {
			delete(r.removed, a)
		}
	}
	r.read, r.members = newest, members
}

// accountsWithWorkloads returns the service accounts of workloads and endpoints in a snapshot whose
// identity is in one of the mesh's trust domains. It adds the accounts that WorkloadEntries name.
// It also adds the account of each WorkloadGroup, which workloads may join; without a name that is
// "default".
func accountsWithWorkloads(s *snapshot.Snapshot) map[account]bool {
	set := map[account]bool{}
	domains := s.Settings.TrustDomains()
	seen := map[string]bool{} // many workloads share an account
	add := func(identity string) {
		if seen[identity] {
			return
		}
		seen[identity] = true
		if a, ok := spiffe.AccountOf(identity); ok && slices.Contains(domains, a.TrustDomain) {
			set[account{a.Namespace, a.Name}] = true
		}
	}
	for identity := range s.WorkloadAccounts() {
		add(identity)
	}
	for _, service := range s.Services() {
		for _, identity := range s.Endpoints(service.ServiceKey).Accounts() {
			add(identity)
		}
	}
	for _, c := range s.Configs(api.WorkloadGroup) {
		if g, ok := c.Spec.(*networking.WorkloadGroup); ok {
			set[account{c.Namespace, cmp.Or(g.GetTemplate().GetServiceAccount(), "default")}] = true
		}
	}
	for _, c := range s.Configs(api.WorkloadEntry) { // those without an IP address are not among the workloads
		if w, ok := c.Spec.(*networking.WorkloadEntry); ok && w.GetServiceAccount() != "" {
			set[account{c.Namespace, w.GetServiceAccount()}] = true
		}
	}
	return set
}

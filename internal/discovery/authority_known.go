package discovery

import (
	"sync"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/meshpilot/meshpilot/internal/api"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/spiffe"
)

// knownAccounts says which service accounts there is a workload for: in what the files list, or in a WorkloadGroup that workloads may
// join. A token of a workload that was taken out speaks for nobody any more.
type knownAccounts struct {
	current func() *snapshot.Snapshot
	// system is the control plane's namespace: its accounts are those of operators and of other control planes, which no file lists.
	system string

	mu  sync.Mutex
	of  *snapshot.Snapshot
	set map[string]bool // made when somebody asks, once for each snapshot
}

// has says whether any workload, or the control plane itself, runs as a service account.
func (k *knownAccounts) has(a spiffe.Account) bool {
	if a.Namespace == k.system {
		return true
	}
	now := k.current()
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.of != now {
		k.of, k.set = now, accountsOf(now)
	}
	return k.set[a.String()]
}

func accountsOf(s *snapshot.Snapshot) map[string]bool {
	set := map[string]bool{}
	for id := range s.WorkloadAccounts() {
		set[id] = true
	}
	for _, service := range s.Services() {
		for _, id := range s.Endpoints(service.ServiceKey).Accounts() {
			set[id] = true
		}
	}
	for _, c := range s.Configs(api.WorkloadGroup) {
		if g, ok := c.Spec.(*networking.WorkloadGroup); ok {
			name := g.GetTemplate().GetServiceAccount()
			if name == "" {
				name = "default"
			}
			set[spiffe.Account{TrustDomain: s.Settings.TrustDomain, Namespace: c.Namespace, Name: name}.String()] = true
		}
	}
	return set
}

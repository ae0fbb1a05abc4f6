package snapshot

import "slices"

// Accounts returns the distinct service accounts (SPIFFE IDs) of the endpoints, sorted. Endpoints
// without an account are skipped. It returns nil for a nil set.
func (s *EndpointSet) Accounts() []string {
	if s == nil {
		return nil
	}
	var list []string
	for _, e := range s.Endpoints {
		if e.Account == "" {
			continue
		}
		if i, there := slices.BinarySearch(list, e.Account); !there {
			list = slices.Insert(list, i, e.Account)
		}
	}
	return list
}

// markChangedAccounts adds to e.delta.Accounts those services of e.delta.Endpoints whose endpoints
// have other accounts than before, or whose TLSPorts changed. Both are part of the callers'
// clusters, which a change of endpoints alone does not touch.
func (e *edit) markChangedAccounts() {
	for k := range e.delta.Endpoints {
		old, now := e.current.endpoints.Get(k), e.endpoints.Get(k)
		if !slices.Equal(old.TLSPorts(), now.TLSPorts()) || !slices.Equal(old.Accounts(), now.Accounts()) {
			add(&e.delta.Accounts, k)
		}
	}
}

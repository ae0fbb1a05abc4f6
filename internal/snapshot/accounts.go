package snapshot

import "slices"

// Accounts gives the accounts of the endpoints, sorted, each once.
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

// noteAccounts notes the services of whose endpoints other accounts answer than before, or that all take mutual TLS now, or do
// not any more. Callers that go by that must be told, where endpoints alone are no matter of theirs.
func (e *edit) noteAccounts() {
	for k := range e.delta.Endpoints {
		old, now := e.current.endpoints.Get(k), e.endpoints.Get(k)
		if old.AllTLS() != now.AllTLS() || !slices.Equal(old.Accounts(), now.Accounts()) {
			add(&e.delta.Accounts, k)
		}
	}
}

package credential

import (
	"maps"
	"slices"

	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// Want is the set of objects that one proxy requests.
type Want struct {
	// Account is the account whose permission decides over Private; the zero Account has none.
	Account mesh.Account
	// Objects are read for any proxy: they contain CA certificates, or a Gateway names them.
	// Private objects are read only if the account may read Secrets.
	Objects, Private []config.Key
	// Fallback are objects that are used only if the proxy's own cluster has none. Failures to read
	// them are not reported.
	Fallback []config.Key
}

// empty reports whether w requests nothing.
func (w Want) empty() bool {
	return w.Account == (mesh.Account{}) && len(w.Objects) == 0 && len(w.Private) == 0 && len(w.Fallback) == 0
}

// equal reports whether w and o have the same account and the same lists in the same order.
func (w Want) equal(o Want) bool {
	return w.Account == o.Account && slices.Equal(w.Objects, o.Objects) && slices.Equal(w.Private, o.Private) &&
		slices.Equal(w.Fallback, o.Fallback)
}

// desiredObjects returns the objects to watch, with false if an object is requested only as a
// fallback, and the accounts to review. Private objects of an account that may not read them, or
// whose review is pending, are left out. s.mu must be held.
func (s *Source) desiredObjects() (objects map[config.Key]bool, accounts map[mesh.Account]bool) {
	objects, accounts = map[config.Key]bool{}, map[mesh.Account]bool{}
	for w := range s.allWants() {
		for _, k := range s.readableObjects(w) {
			objects[k] = objects[k] || !slices.Contains(w.Fallback, k)
		}
		if w.Account != (mesh.Account{}) {
			accounts[w.Account] = true
		}
	}
	return objects, accounts
}

// allWants returns an iterator over the Wants of streams and of Await. s.mu must be held.
func (s *Source) allWants() func(yield func(Want) bool) {
	return func(yield func(Want) bool) {
		for w := range maps.Values(s.wants) {
			if !yield(w) {
				return
			}
		}
		for _, e := range s.expected {
			if !yield(e.want) {
				return
			}
		}
	}
}

// readableObjects returns the objects of a Want that may be read now: its private ones only if its
// account's permission is granted, or it has no account. s.mu must be held.
func (s *Source) readableObjects(w Want) []config.Key {
	if w.Account == (mesh.Account{}) || s.permissions[w.Account].isAllowed() {
		return slices.Concat(w.Objects, w.Private, w.Fallback)
	}
	return slices.Concat(w.Objects, w.Fallback)
}

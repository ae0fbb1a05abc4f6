package credential

import (
	"maps"
	"slices"

	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// Want is what one proxy asks for.
type Want struct {
	// Account is whose right to read Secrets decides over Private; the zero Account: nobody's.
	Account mesh.Account
	// Objects may be followed for anybody who asks: they hold certificates to trust, or a Gateway names them. Private ones only
	// for who may read Secrets.
	Objects, Private []config.Key
	// Fallback are objects that count where another cluster, whose the proxy is, has none. That they cannot be read is nobody's
	// trouble.
	Fallback []config.Key
}

func (w Want) empty() bool {
	return w.Account == (mesh.Account{}) && len(w.Objects) == 0 && len(w.Private) == 0 && len(w.Fallback) == 0
}

func (w Want) equal(o Want) bool {
	return w.Account == o.Account && slices.Equal(w.Objects, o.Objects) && slices.Equal(w.Private, o.Private) && slices.Equal(w.Fallback, o.Fallback)
}

// desired gives what is to be followed now, and whether for more than a fallback; and the accounts whose rights are to be known.
// s.mu is held.
func (s *Source) desired() (objects map[config.Key]bool, accounts map[mesh.Account]bool) {
	objects, accounts = map[config.Key]bool{}, map[mesh.Account]bool{}
	for w := range s.allWants() {
		for _, k := range s.visible(w) {
			objects[k] = objects[k] || !slices.Contains(w.Fallback, k)
		}
		if w.Account != (mesh.Account{}) {
			accounts[w.Account] = true
		}
	}
	return objects, accounts
}

// allWants gives what streams ask for, and what they are expected to ask for soon. s.mu is held.
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

// visible gives what of a Want may be followed. s.mu is held.
func (s *Source) visible(w Want) []config.Key {
	if w.Account == (mesh.Account{}) || s.rights[w.Account].allowed() {
		return slices.Concat(w.Objects, w.Private, w.Fallback)
	}
	return slices.Concat(w.Objects, w.Fallback)
}

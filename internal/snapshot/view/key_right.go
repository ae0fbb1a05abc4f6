package view

import (
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
)

// KeyRight says whether proxies may be sent the private keys of their namespace.
type KeyRight uint8

const (
	// NoKeys says that nobody vouches for what the proxy says of itself.
	NoKeys KeyRight = iota
	// KeysUnknown says that it is known who the proxy is, and not yet whether it may read Secrets.
	KeysUnknown
	// KeysRefused says that its account may not.
	KeysRefused
	// KeysAllowed says that its account may, or there is nobody to ask.
	KeysAllowed
)

// Vouched says that the proxy is in the namespace that it says it is in.
func (r KeyRight) Vouched() bool { return r != NoKeys }

// keyRight gives the right of a proxy as it is known at the time of a snapshot.
func keyRight(s *snapshot.Snapshot, p *mesh.Proxy) KeyRight {
	switch {
	case !p.Keys:
		return NoKeys
	case p.Account.Cluster == "": // nobody in particular, or somebody whom no API server knows
		return KeysAllowed
	}
	switch r := s.Right(p.Account); {
	case r == nil:
		return KeysUnknown
	case r.Allowed:
		return KeysAllowed
	default:
		return KeysRefused
	}
}

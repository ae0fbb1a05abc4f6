package authority

import (
	"time"

	"github.com/meshpilot/meshpilot/internal/base/obs"
	"github.com/meshpilot/meshpilot/internal/identity/ca"
)

// serviceMetrics implements ca.Metrics.
type serviceMetrics struct{ m *obs.AuthorityMetrics }

var _ ca.Metrics = serviceMetrics{}

func (x serviceMetrics) RequestReceived()      { x.m.Requests.Inc() }
func (x serviceMetrics) AuthenticationFailed() { x.m.Unauthenticated.Inc() }
func (x serviceMetrics) CertificateIssued()    { x.m.Issued.Inc() }

// RequestRefused counts a refused request: CauseCSR in BadRequests, CauseIdentity in NoIdentity,
// and CauseNotReady, CauseTTL, CauseSigning and CauseRate by their name in Refused. An unknown
// cause is not counted.
func (x serviceMetrics) RequestRefused(cause ca.Cause) {
	switch cause {
	case ca.CauseCSR:
		x.m.BadRequests.Inc()
	case ca.CauseIdentity:
		x.m.NoIdentity.Inc()
	case ca.CauseNotReady, ca.CauseTTL, ca.CauseSigning, ca.CauseRate:
		x.m.Refused.WithLabelValues(string(cause)).Inc()
	}
}

// expiry returns when the first root expires, and when the chain of the control plane's own
// authority expires. Each is zero if there is none.
func (s *Server) expiry() (root, chain time.Time) {
	if s.issuer == nil {
		return root, chain
	}
	list, _ := s.issuer.Roots()
	for _, r := range list {
		if root.IsZero() || r.NotAfter.Before(root) {
			root = r.NotAfter
		}
	}
	if local, ok := s.issuer.(*ca.Authority); ok {
		if m, _ := local.Material(); m != nil {
			chain = m.NotAfter
		}
	}
	return root, chain
}

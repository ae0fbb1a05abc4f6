package discovery

import (
	"time"

	"github.com/meshpilot/meshpilot/internal/base/obs"
	"github.com/meshpilot/meshpilot/internal/identity/ca"
)

// authorityMetrics records the events of the certificate authority in obs.Metrics.
type authorityMetrics struct{ m *obs.AuthorityMetrics }

var _ ca.Metrics = authorityMetrics{}

func (x metrics) authority() authorityMetrics { return authorityMetrics{&x.m.Authority} }

func (x authorityMetrics) RequestReceived()      { x.m.Requests.Inc() }
func (x authorityMetrics) AuthenticationFailed() { x.m.Unauthenticated.Inc() }
func (x authorityMetrics) CertificateIssued()    { x.m.Issued.Inc() }

func (x authorityMetrics) RequestRefused(cause ca.Cause) {
	switch cause {
	case ca.CauseCSR:
		x.m.BadRequests.Inc()
	case ca.CauseIdentity:
		x.m.NoIdentity.Inc()
	case ca.CauseNotReady, ca.CauseTTL, ca.CauseSigning, ca.CauseRate:
		x.m.Refused.WithLabelValues(string(cause)).Inc()
	}
}

// authorityLoaded increments the counter of unusable CA files if err is not nil.
func (x metrics) authorityLoaded(err error) {
	if err != nil {
		x.m.Authority.BadMaterial.Inc()
	}
}

// expiry returns when the first root expires and when the signing chain expires. Each is the zero
// time if it does not exist.
func (a *authority) expiry() (root, chain time.Time) {
	if a.issuer == nil {
		return root, chain
	}
	list, _ := a.issuer.Roots()
	for _, r := range list {
		if root.IsZero() || r.NotAfter.Before(root) {
			root = r.NotAfter
		}
	}
	if local, ok := a.issuer.(*ca.Authority); ok {
		if m, _ := local.Material(); m != nil {
			chain = m.NotAfter
		}
	}
	return root, chain
}

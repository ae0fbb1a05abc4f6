package discovery

import (
	"strings"
	"time"

	"github.com/meshpilot/meshpilot/internal/api"
	"github.com/meshpilot/meshpilot/internal/mesh"
	"github.com/meshpilot/meshpilot/internal/obs"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/xds/push"
)

// metrics puts what the parts report under the names of obs.Metrics.
type metrics struct{ m *obs.Metrics }

var _ push.Metrics = metrics{}

func short(typeURL string) string { return strings.ToLower(api.ShortType(typeURL)) }

func (x metrics) Connected(delta int, version string) {
	x.m.Clients.WithLabelValues(version).Add(float64(delta))
}

func (x metrics) Published(gathered time.Duration, triggers []string) {
	x.m.Debounce.Observe(gathered.Seconds())
	for _, t := range triggers {
		x.m.Triggers.WithLabelValues(t).Inc()
	}
}

func (x metrics) Generated(typeURL string, _ int, took time.Duration) {
	x.m.PushTime.WithLabelValues(short(typeURL)).Observe(took.Seconds())
}

func (x metrics) Classes(n int)             { x.m.Classes.Set(float64(n)) }
func (x metrics) Queued(d time.Duration)    { x.m.QueueTime.Observe(d.Seconds()) }
func (x metrics) Converged(d time.Duration) { x.m.Convergence.Observe(d.Seconds()) }

func (x metrics) Sent(typeURL string, _, bytes int, took time.Duration) {
	x.m.Pushes.WithLabelValues(short(typeURL)).Inc()
	x.m.ConfigSize.WithLabelValues(typeURL).Observe(float64(bytes))
	x.m.SendTime.Observe(took.Seconds())
}

func (x metrics) Received(bytes int) { x.m.Received(bytes) }
func (x metrics) Acked(string)       {}

func (x metrics) Refused(n push.Nack) {
	x.m.Rejects.WithLabelValues(short(n.TypeURL)).Inc()
	if g := x.m.Rejected[short(n.TypeURL)]; g != nil {
		g.WithLabelValues(n.Proxy.ID, "").Set(1)
	}
}

func (x metrics) Mended(n push.Nack) {
	if g := x.m.Rejected[short(n.TypeURL)]; g != nil {
		g.DeleteLabelValues(n.Proxy.ID, "")
	}
}

func (x metrics) ExpiredNonce(typeURL string) {
	x.m.ExpiredNonces.WithLabelValues(short(typeURL)).Inc()
}
func (x metrics) WriteTimeout()  { x.m.WriteTimeouts.Inc() }
func (x metrics) InternalError() { x.m.InternalErrors.Inc() }

// observe counts what comes in from sources.
func (x metrics) observe(batch mesh.Batch) {
	for _, e := range batch {
		switch {
		case e.Config != nil:
			x.m.ConfigEvents.WithLabelValues(string(e.Config.Kind), e.Op.String()).Inc()
			x.m.InboundUpdates.WithLabelValues("config").Inc()
		case e.Service != nil:
			x.m.InboundUpdates.WithLabelValues("svc").Inc()
		case e.Shard != nil:
			x.m.InboundUpdates.WithLabelValues("eds").Inc()
		}
	}
}

// published counts what a new snapshot holds.
func (x metrics) published(s *snapshot.Snapshot) {
	x.m.Services.Set(float64(len(s.Services())))
	x.m.VirtServices.Set(float64(len(s.VirtualServices())))
	x.m.RejectedConfigs.Set(float64(len(s.Problems())))
}

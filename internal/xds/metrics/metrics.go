package metrics

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/meshpilot/meshpilot/internal/base/obs"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/xds/push"
)

// Metrics implements the Metrics of the packages push, server and feed. It is safe for concurrent
// use.
type Metrics struct {
	m        *obs.Metrics
	versions *versionLabels
}

var _ push.Metrics = Metrics{}

// New returns Metrics that are recorded in m.
func New(m *obs.Metrics) Metrics {
	return Metrics{m: m, versions: &versionLabels{gauge: m.Clients, proxies: map[string]int{}}}
}

// shortType returns the short name of a type URL in lower case, such as "cds", or typeURL itself if
// the type has no short name.
func shortType(typeURL string) string {
	if s := api.ShortType(typeURL); s != typeURL {
		return strings.ToLower(s)
	}
	return typeURL
}

// RegisterCounters registers counters that are read when metrics are scraped: computed and
// generated resources by type, and reads of the cache for all types. Each computed resource is a
// miss, every other generated one a hit. computedByType has a function for each type URL that
// returns how many resources were computed and not read from a cache.
func (x Metrics) RegisterCounters(computedByType map[string]func() uint64, reports push.Reports) {
	var misses []func() uint64
	for _, typeURL := range slices.Sorted(maps.Keys(computedByType)) {
		computed := computedByType[typeURL]
		misses = append(misses, computed)
		x.m.Computed(shortType(typeURL), computed, func() uint64 { return reports.Stats().Generated[typeURL] })
	}
	computed := func() (sum uint64) {
		for _, f := range misses {
			sum += f()
		}
		return sum
	}
	cached := func() (sum uint64) {
		for _, n := range reports.Stats().Generated {
			sum += n
		}
		return sum - min(sum, computed())
	}
	x.m.CacheReads(cached, computed)
}

// Connected adds delta to the number of connected proxies that report this version of their
// software.
func (x Metrics) Connected(delta int, version string) {
	x.versions.count(version, delta)
}

// Published records for how long the changes of a turn were gathered, and increments the counter of
// each trigger (the kinds of its changes). "proxyupdate" is counted as "proxy".
func (x Metrics) Published(gathered time.Duration, triggers []string) {
	x.m.Debounce.Observe(gathered.Seconds())
	for _, t := range triggers {
		if t == "proxyupdate" {
			t = "proxy" // as istiod calls it
		}
		x.m.Triggers.WithLabelValues(t).Inc()
	}
}

// Generated records the time that one run of a generator took, for the type of its resources. The
// number of resources is ignored.
func (x Metrics) Generated(typeURL string, _ int, took time.Duration) {
	x.m.PushTime.WithLabelValues(shortType(typeURL)).Observe(took.Seconds())
}

// Classes sets the number of classes of proxies.
func (x Metrics) Classes(n int) { x.m.Classes.Set(float64(n)) }

// Queued records the time from the offer of a ResourceSnapshot until the stream takes it.
func (x Metrics) Queued(d time.Duration) { x.m.QueueTime.Observe(d.Seconds()) }

// Converged records the time from a change until a proxy has answered every response for it.
func (x Metrics) Converged(d time.Duration) { x.m.Convergence.Observe(d.Seconds()) }

// Sent counts a response of a type, and records its size in bytes and the time that writing took.
// The number of resources is ignored.
func (x Metrics) Sent(typeURL string, _, bytes int, took time.Duration) {
	x.m.Pushes.WithLabelValues(shortType(typeURL)).Inc()
	x.m.SentBytes.WithLabelValues(shortType(typeURL)).Add(float64(bytes))
	x.m.ConfigSize.WithLabelValues(typeURL).Observe(float64(bytes))
	x.m.SendTime.Observe(took.Seconds())
}

// Received records the size of a request in bytes.
func (x Metrics) Received(bytes int) { x.m.Received(bytes) }

// Acked does nothing: acknowledgements have no metric.
func (x Metrics) Acked(string) {}

// Refused counts a rejection of the type. It also sets the gauge of rejected types for the proxy to
// 1, until RejectionResolved; types without such a gauge are only counted.
func (x Metrics) Refused(n push.Nack) {
	x.m.Rejects.WithLabelValues(shortType(n.TypeURL)).Inc()
	if g := x.m.Rejected[shortType(n.TypeURL)]; g != nil {
		g.WithLabelValues(n.Proxy.Name+"."+n.Proxy.Namespace, "").Set(1)
	}
}

// RejectionResolved removes the gauge value that Refused set for the proxy and type. It does
// nothing for types without such a gauge.
func (x Metrics) RejectionResolved(n push.Nack) {
	if g := x.m.Rejected[shortType(n.TypeURL)]; g != nil {
		g.DeleteLabelValues(n.Proxy.Name+"."+n.Proxy.Namespace, "")
	}
}

// Quarantined sets the number of resources that are withheld.
func (x Metrics) Quarantined(n int) { x.m.Quarantined.Set(float64(n)) }

// Late counts a response with resources that refer to clusters which the proxy had not acknowledged
// within the deadline.
func (x Metrics) Late(typeURL string) { x.m.Late.WithLabelValues(shortType(typeURL)).Inc() }

// ExpiredNonce counts a request with an outdated nonce. In SotW that is any but the nonce of the
// last response of its type, in delta any but the nonce of an unanswered response.
func (x Metrics) ExpiredNonce(typeURL string) {
	x.m.ExpiredNonces.WithLabelValues(shortType(typeURL)).Inc()
}

// WriteTimeout counts a stream that was closed because a response could not be written in time.
func (x Metrics) WriteTimeout() { x.m.WriteTimeouts.Inc() }

// StreamRefused counts a stream that was refused because too many proxies were connecting.
func (x Metrics) StreamRefused() { x.m.RefusedStreams.Inc() }

// InternalError counts a panic, or a generator that broke its contract.
func (x Metrics) InternalError() { x.m.InternalErrors.Inc() }

package discovery

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/meshpilot/meshpilot/internal/base/obs"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/translate"
	"github.com/meshpilot/meshpilot/internal/xds/push"
)

// metrics records the events of all parts in obs.Metrics.
type metrics struct {
	m        *obs.Metrics
	versions *versionLabels
}

var _ push.Metrics = metrics{}

func newMetrics() metrics {
	m := obs.NewMetrics()
	return metrics{m: m, versions: &versionLabels{gauge: m.Clients, proxies: map[string]int{}}}
}

// short returns the short name of a type for labels, such as "cds", or the URL of a type without a
// short name.
func short(typeURL string) string {
	if s := api.ShortType(typeURL); s != typeURL {
		return strings.ToLower(s)
	}
	return typeURL
}

// counters registers the counters that the generators and the Pusher maintain themselves.
func (x metrics) counters(t *translate.Table, p *push.Pusher) {
	var misses []func() uint64
	for _, typeURL := range slices.Sorted(maps.Keys(t.Computed)) {
		computed := t.Computed[typeURL]
		misses = append(misses, computed)
		x.m.Computed(short(typeURL), computed, func() uint64 { return p.Stats().Generated[typeURL] })
	}
	made := func() (sum uint64) {
		for _, f := range misses {
			sum += f()
		}
		return sum
	}
	there := func() (sum uint64) {
		for _, n := range p.Stats().Generated {
			sum += n
		}
		return sum - min(sum, made())
	}
	x.m.CacheReads(there, made)
}

func (x metrics) Connected(delta int, version string) {
	x.versions.count(version, delta)
}

func (x metrics) Published(gathered time.Duration, triggers []string) {
	x.m.Debounce.Observe(gathered.Seconds())
	for _, t := range triggers {
		if t == "proxyupdate" {
			t = "proxy" // as istiod calls it
		}
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
	x.m.SentBytes.WithLabelValues(short(typeURL)).Add(float64(bytes))
	x.m.ConfigSize.WithLabelValues(typeURL).Observe(float64(bytes))
	x.m.SendTime.Observe(took.Seconds())
}

func (x metrics) Received(bytes int) { x.m.Received(bytes) }
func (x metrics) Acked(string)       {}

func (x metrics) Refused(n push.Nack) {
	x.m.Rejects.WithLabelValues(short(n.TypeURL)).Inc()
	if g := x.m.Rejected[short(n.TypeURL)]; g != nil {
		g.WithLabelValues(n.Proxy.Name+"."+n.Proxy.Namespace, "").Set(1)
	}
}

func (x metrics) RejectionResolved(n push.Nack) {
	if g := x.m.Rejected[short(n.TypeURL)]; g != nil {
		g.DeleteLabelValues(n.Proxy.Name+"."+n.Proxy.Namespace, "")
	}
}

func (x metrics) Quarantined(n int) { x.m.Quarantined.Set(float64(n)) }

func (x metrics) Late(typeURL string) { x.m.Late.WithLabelValues(short(typeURL)).Inc() }

func (x metrics) ExpiredNonce(typeURL string) {
	x.m.ExpiredNonces.WithLabelValues(short(typeURL)).Inc()
}
func (x metrics) WriteTimeout()  { x.m.WriteTimeouts.Inc() }
func (x metrics) InternalError() { x.m.InternalErrors.Inc() }

// inputs counts the events of sources and the snapshots built from them. Its methods are called
// from one goroutine.
type inputs struct {
	m       *obs.Metrics
	current func() *snapshot.Snapshot
	began   time.Time
	broken  map[config.Key]bool // objects with a Problem of severity Error
}

// observe counts the events of a batch. It must be called before the batch is applied, because it
// distinguishes added objects from updated ones.
func (x *inputs) observe(batch mesh.Batch) {
	x.began = time.Now()
	s := x.current()
	for _, e := range batch {
		if e.Config == nil {
			continue
		}
		if k, known := api.Info(e.Config.Kind); !known || !k.Istio() {
			continue
		}
		event := "add"
		switch {
		case e.Op == mesh.Delete:
			event = "delete"
		case s.Config(e.Config.Key) != nil:
			event = "update"
		}
		x.m.ConfigEvents.WithLabelValues(string(e.Config.Kind), event).Inc()
	}
}

// published counts the changes of a new snapshot and the objects that became invalid. It also
// records how long the snapshot took to build.
func (x *inputs) published(s *snapshot.Snapshot, d snapshot.Delta) {
	x.m.SnapshotTime.Observe(time.Since(x.began).Seconds())
	x.m.Services.Set(float64(len(s.Services())))
	x.m.VirtServices.Set(float64(len(s.VirtualServices())))
	add := func(kind string, n int) { x.m.InboundUpdates.WithLabelValues(kind).Add(float64(n)) }
	if d.All { // the first one
		add("svc", len(s.Services()))
		for _, k := range api.Kinds() {
			if k.Istio() {
				add("config", len(s.Configs(k.Kind)))
			}
		}
	}
	for k := range d.Services {
		if s.Service(k) == nil {
			add("svcdelete", 1)
		} else {
			add("svc", 1)
		}
	}
	add("config", len(d.Configs))
	add("eds", len(d.Endpoints))

	broken := map[config.Key]bool{}
	for _, p := range s.Problems() {
		if p.Severity != config.Error || broken[p.Key] {
			continue
		}
		broken[p.Key] = true
		if !x.broken[p.Key] {
			x.m.RejectedConfigs.WithLabelValues(strings.ToLower(string(p.Key.Kind)), p.Key.Namespace+"/"+p.Key.Name).Inc()
		}
	}
	x.broken = broken
}

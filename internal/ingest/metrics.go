package ingest

import (
	"strings"
	"time"

	"github.com/meshpilot/meshpilot/internal/base/obs"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
)

// Metrics records the events of sources and the snapshots built from them. Its methods are called
// from one goroutine.
type Metrics struct {
	m       *obs.Metrics
	current func() *snapshot.Snapshot
	began   time.Time
	broken  map[config.Key]bool // objects with a Problem of severity Error
}

// NewMetrics returns Metrics that are recorded in m. current must return the current snapshot,
// never nil.
func NewMetrics(m *obs.Metrics, current func() *snapshot.Snapshot) *Metrics {
	return &Metrics{m: m, current: current}
}

// RecordBatch counts each event about an object of Istio's kinds in a batch as added, updated or
// deleted. It also starts the measurement of the snapshot's duration. It must be called before the
// batch is applied: an object is updated if the current snapshot has it. Other events are ignored.
func (x *Metrics) RecordBatch(batch mesh.Batch) {
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

// RecordSnapshot counts the changed services, endpoints and config objects of a new snapshot; if
// d.All is set, all services and all objects of Istio's kinds. It counts each object that has got a
// Problem of severity Error, once until it has none again. It also records the numbers of services
// and VirtualServices, and the time since the last RecordBatch.
func (x *Metrics) RecordSnapshot(s *snapshot.Snapshot, d snapshot.Delta) {
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
			x.m.RejectedConfigs.WithLabelValues(strings.ToLower(string(p.Key.Kind)),
				p.Key.Namespace+"/"+p.Key.Name).Inc()
		}
	}
	x.broken = broken
}

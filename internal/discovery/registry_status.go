package discovery

import (
	"slices"
	"time"

	"github.com/meshpilot/meshpilot/internal/diagnostics/debug"
	"github.com/meshpilot/meshpilot/internal/diagnostics/readapi"
	"github.com/meshpilot/meshpilot/pkg/adapter"
)

// registryStatuses returns the state of each source, by precedence, and of each remote cluster.
// It returns none until the mesh configuration, which selects the sources, is known.
func (s *server) registryStatuses() []readapi.Registry {
	list := []readapi.Registry{}
	waiting := s.ready.Waiting()
	opened := s.openedSources.Load()
	if opened == nil {
		return list
	}
	for _, f := range *opened {
		r := readapi.Registry{Name: f.Name(), State: readapi.RegistrySynced}
		if slices.Contains(waiting, f.Name()) {
			r.State = readapi.RegistryWaiting
		}
		switch p := f.(type) {
		case interface{ Status() adapter.Status }:
			setPlatformStatus(&r, p.Status(), time.Now())
		case interface{ Unreadable() (time.Time, string) }:
			since, reason := p.Unreadable()
			r.SetUnreadable(since, reason, time.Now())
		}
		list = append(list, r)
	}
	for _, c := range debug.RemoteClusters(s.clusters.Status()) {
		r := readapi.Registry{Name: "Kubernetes/" + c.ID, State: readapi.RegistrySynced, Error: c.Waiting, Services: &c.Services}
		if c.SyncStatus != "synced" {
			r.State = readapi.RegistryWaiting
		}
		if !slices.ContainsFunc(list, func(o readapi.Registry) bool { return o.Name == r.Name }) {
			list = append(list, r)
		}
	}
	return list
}

// setPlatformStatus sets the state and numbers of a platform.
func setPlatformStatus(r *readapi.Registry, s adapter.Status, now time.Time) {
	r.Error, r.Failures, r.Held, r.Problems = s.Error, s.Failures, s.Held, s.Problems
	r.Services, r.Instances = &s.Services, &s.Instances
	if !s.LastChange.IsZero() {
		r.LastChange = &s.LastChange
	}
	switch {
	case s.Synced:
		r.State = readapi.RegistrySynced
	case s.LastSync.IsZero():
		r.State = readapi.RegistryWaiting
	default:
		r.State = readapi.RegistryStale
	}
	if !s.LastSync.IsZero() {
		r.LastSync = &s.LastSync
	}
	if !s.Synced && !s.Unreadable.IsZero() {
		r.LagSeconds = int64(now.Sub(s.Unreadable).Seconds())
	}
}

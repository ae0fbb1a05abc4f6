package readapi

import (
	"slices"
	"time"

	"github.com/meshpilot/meshpilot/internal/diagnostics/debug"
	"github.com/meshpilot/meshpilot/pkg/adapter"
)

// RegistriesOf returns the state of each source, in their order, and of each remote cluster that is
// no source. waiting are the names of sources that are not in sync. Only some sources report
// numbers and errors (adapter.Status, Unreadable). If sources is nil, which they are is not known
// yet, and the result is empty.
func RegistriesOf[S interface{ Name() string }](sources *[]S, waiting []string, clusters []debug.Cluster,
	now time.Time) []Registry {
	list := []Registry{}
	if sources == nil {
		return list
	}
	for _, source := range *sources {
		r := Registry{Name: source.Name(), State: RegistrySynced}
		if slices.Contains(waiting, r.Name) {
			r.State = RegistryWaiting
		}
		switch p := any(source).(type) {
		case interface{ Status() adapter.Status }:
			setPlatformStatus(&r, p.Status(), now)
		case interface{ Unreadable() (time.Time, string) }:
			since, reason := p.Unreadable()
			r.setUnreadable(since, reason, now)
		}
		list = append(list, r)
	}
	for _, c := range clusters {
		r := Registry{Name: "Kubernetes/" + c.ID, State: RegistrySynced, Error: c.Waiting, Services: &c.Services}
		if c.SyncStatus != "synced" {
			r.State = RegistryWaiting
		}
		if !slices.ContainsFunc(list, func(o Registry) bool { return o.Name == r.Name }) {
			list = append(list, r)
		}
	}
	return list
}

// setPlatformStatus sets the state and numbers of a platform. It is Synced if in sync now, Waiting
// if it never was, and else Stale. Unless it is in sync, LagSeconds becomes the time since
// s.Unreadable, if that is set.
func setPlatformStatus(r *Registry, s adapter.Status, now time.Time) {
	r.Error, r.Failures, r.Held, r.Problems = s.Error, s.Failures, s.Held, s.Problems
	r.Services, r.Instances = &s.Services, &s.Instances
	if !s.LastChange.IsZero() {
		r.LastChange = &s.LastChange
	}
	switch {
	case s.Synced:
		r.State = RegistrySynced
	case s.LastSync.IsZero():
		r.State = RegistryWaiting
	default:
		r.State = RegistryStale
	}
	if !s.LastSync.IsZero() {
		r.LastSync = &s.LastSync
	}
	if !s.Synced && !s.Unreadable.IsZero() {
		r.LagSeconds = int64(now.Sub(s.Unreadable).Seconds())
	}
}

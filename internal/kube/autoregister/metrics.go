package autoregister

import "github.com/meshpilot/meshpilot/internal/base/obs"

// NewMetrics returns Metrics that increment the counters of m.
func NewMetrics(m *obs.WriteMetrics) Metrics { return writeMetrics{m} }

type writeMetrics struct{ m *obs.WriteMetrics }

func (x writeMetrics) EntryRegistered()   { x.m.Registered.Inc() }
func (x writeMetrics) EntryUpdated()      { x.m.Updated.Inc() }
func (x writeMetrics) EntryUnregistered() { x.m.Unregistered.Inc() }
func (x writeMetrics) EntryDeleted()      { x.m.Deleted.Inc() }
func (x writeMetrics) EntryError()        { x.m.Errors.Inc() }

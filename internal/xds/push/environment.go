package push

import (
	"log/slog"

	"github.com/meshpilot/meshpilot/internal/base/clock"
	"github.com/meshpilot/meshpilot/internal/base/recovery"
	"github.com/meshpilot/meshpilot/internal/xds/stream"
)

// environment contains the dependencies and state that the owner of the rollout, the workers and
// all streams share.
type environment struct {
	log      *slog.Logger
	metrics  Metrics
	clock    clock.Clock
	recovery *recovery.Recorder // if nil, panics are not recovered
	limits   stream.NameLimits
	names    *nameTable
	sets     setTable
	nacks    nackLog
	counts   counts
	needs    *needs
	events   *eventQueue
	changes  changeLog
}

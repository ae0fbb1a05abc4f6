package relay

import (
	rpcstatus "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
)

// healthType is Istio's resource type for reports of a workload's health (HealthInfoTypeURL).
const healthType = "type.googleapis.com/istio.v1.HealthInformation"

// SetHealth reports the workload's health to the control plane, now on streams that have requested
// listeners, and after each reconnect. An empty problem means healthy. A stream on which that fails
// is ended.
func (r *Relay) SetHealth(problem string) {
	h := &health{}
	if problem != "" {
		h.problem = &rpcstatus.Status{Code: int32(codes.Internal), Message: problem}
	}
	r.mu.Lock()
	r.health = h
	sessions := append([]*session(nil), r.sessions...)
	r.mu.Unlock()
	for _, s := range sessions {
		if s.listenersRequested.Load() { // the control plane does not know the node before
			if err := s.sendHealth(h); err != nil {
				s.end(err)
			}
		}
	}
}

// currentHealth returns the last reported health, or nil if none was reported.
func (r *Relay) currentHealth() *health {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.health
}

// sendHealth queues a health report. It does nothing if h is nil. It returns an error if the report
// cannot be encoded or queued.
func (s *session) sendHealth(h *health) error {
	if h == nil {
		return nil
	}
	f, err := s.protocol.newStatusRequest(healthType, h.problem)
	if err != nil {
		return err
	}
	return s.queue.push(request{healthType, f})
}

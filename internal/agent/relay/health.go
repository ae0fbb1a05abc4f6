package relay

import (
	rpcstatus "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
)

// healthType is what Istio calls word of a workload's health (HealthInfoTypeURL).
const healthType = "type.googleapis.com/istio.v1.HealthInformation"

// SetHealth tells the control plane, now and after each reconnect, whether the workload is well; "" is well.
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
		if s.listeners.Load() { // before, nobody has said who is asking
			if err := s.tellHealth(h); err != nil {
				s.end(err)
			}
		}
	}
}

func (r *Relay) workloadHealth() *health {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.health
}

func (s *session) tellHealth(h *health) error {
	if h == nil {
		return nil
	}
	f, err := s.form.tell(healthType, h.problem)
	if err != nil {
		return err
	}
	return s.queue.push(request{healthType, f})
}

package server

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/meshpilot/meshpilot/internal/base/truncate"
	"github.com/meshpilot/meshpilot/internal/model/code"
	"github.com/meshpilot/meshpilot/internal/model/config"
)

const (
	// refusalMemory is how long a refused client is a Problem after its last attempt. Envoy and the
	// agent try again within half a minute.
	refusalMemory = 5 * time.Minute
	// maxRefusedClients bounds the clients that are recorded. The oldest is evicted.
	maxRefusedClients = 20
	// maxNodeText bounds the text of a node ID in a Problem, in bytes.
	maxNodeText = 200
)

// RefusedClients are the clients whose streams end because they exceed a limit on messages or
// names, so that they are not served. It is safe for concurrent use. The zero value is empty.
type RefusedClients struct {
	mu   sync.Mutex
	list []refusedClient // oldest attempt first
}

type refusedClient struct {
	client, reason string
	at             time.Time
}

// record records a refusal of a client, and removes an earlier one of the same client. It reports
// whether the refusal should be logged: the client has no recent one, and fewer than
// maxRefusedClients are recorded. Refusals older than refusalMemory are removed, and beyond
// maxRefusedClients the oldest one.
func (r *RefusedClients) record(client, reason string, now time.Time) (log bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	known := false
	r.list = slices.DeleteFunc(r.list, func(x refusedClient) bool {
		expired := now.Sub(x.at) > refusalMemory
		known = known || x.client == client && !expired
		return x.client == client || expired
	})
	log = !known && len(r.list) < maxRefusedClients
	if len(r.list) == maxRefusedClients {
		r.list = slices.Delete(r.list, 0, 1)
	}
	r.list = append(r.list, refusedClient{client, reason, now})
	return log
}

// Problems returns an Error for each client that was refused within the last minutes
// (refusalMemory), the latest last. The Origin is the client, because there is no object. It
// returns nil if there is none.
func (r *RefusedClients) Problems(now time.Time) []config.Problem {
	r.mu.Lock()
	defer r.mu.Unlock()
	var list []config.Problem
	for _, x := range r.list {
		if now.Sub(x.at) <= refusalMemory {
			list = append(list, config.Problem{
				Code: code.ClientRefused, Severity: config.Error, Origin: x.client,
				Reason: "the control plane ends its streams, so it receives no configuration: " + x.reason,
			})
		}
	}
	return list
}

// recordRefusal records the client if the stream ends with err because the client exceeds a limit.
// It logs that unless the client was refused recently or too many were (RefusedClients.record). It
// does nothing for other errors, such as too many connecting proxies, and without Options.Refused.
// The client is named by node ID, if known, and address.
func (x *session) recordRefusal(err error) {
	if x.s.refused == nil || status.Code(err) != codes.ResourceExhausted || errors.Is(err, errTooMany) {
		return
	}
	client := "xDS client"
	if x.nodeID != "" {
		client += fmt.Sprintf(" %q", truncate.Text(x.nodeID, maxNodeText))
	}
	address, _, _ := net.SplitHostPort(x.link.peer) // a Unix socket has no port
	client += " at " + cmp.Or(address, x.link.peer)
	if reason := status.Convert(err).Message(); x.s.refused.record(client, reason, x.s.clock.Now()) {
		x.s.log.Warn("ADS: stream ended: the client exceeds a limit", "client", client, "reason", reason)
	}
}

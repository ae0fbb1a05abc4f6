package server

import (
	"context"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/meshpilot/meshpilot/internal/base/truncate"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/xds/stream"
)

// Workloads registers workloads that no platform registry contains, such as virtual machines, for
// as long as they are connected.
type Workloads interface {
	// Handles reports whether a proxy belongs to such a workload.
	Handles(p *mesh.Proxy) bool
	// Connect registers the workload of a proxy before it is served. It returns nil if the workload
	// is not registered after all. The error is a gRPC status, with which the stream ends.
	Connect(ctx context.Context, p *mesh.Proxy) (Workload, error)
}

// Workload is one stream of a workload.
type Workload interface {
	// SetHealth sets the application's health as the agent reports it. The message is empty if the
	// application is healthy.
	SetHealth(healthy bool, message string)
	// Close reports that the stream has ended.
	Close()
}

// healthType is the type of requests in which agents report the health of a workload. Such a
// request may come before any other, without a node. An error_detail means that the workload is
// unhealthy.
const healthType = "type.googleapis.com/istio.v1.HealthInformation"

var errPlaintextRegistration = status.Error(codes.PermissionDenied,
	"workloads are not registered over plain text: connect over TLS, or set MESHPILOT_PLAINTEXT_REGISTRATION")

// registerWorkload registers the workload of a proxy as x.workload, reports in.health to it, and
// returns a function that ends the registration, never nil. It does nothing if there are no
// Workloads or they do not handle the proxy. It refuses plain text with errPlaintextRegistration
// unless RegisterPlaintext is set. Only otherwise it calls leave, before registering: registration
// may take time, during which the stream must not occupy a place.
func (x *session) registerWorkload(in first, leave func()) (unregister func(), err error) {
	none := func() {}
	if x.s.workloads == nil || !x.s.workloads.Handles(in.proxy) {
		return none, nil
	}
	if !x.link.usesTLS() && !x.s.registerPlaintext {
		return none, errPlaintextRegistration
	}
	leave()
	if x.workload, err = x.s.workloads.Connect(x.ctx, in.proxy); err != nil || x.workload == nil {
		return none, err
	}
	if in.health != nil {
		x.reportHealth(in.health)
	}
	return x.workload.Close, nil
}

// reportHealth sets the health of the stream's workload: healthy unless the request has an error,
// whose text it truncates. It does nothing without a workload.
func (x *session) reportHealth(in *incoming) {
	if x.workload != nil {
		x.workload.SetHealth(!in.Rejected, truncate.Text(in.Message, stream.MaxNackMessage))
	}
}

package server

import (
	"context"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/meshpilot/meshpilot/internal/base/truncate"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/xds/stream"
)

// Workloads keeps workloads that are in no registry of a platform, such as virtual machines, as long as they are connected.
type Workloads interface {
	// Wants says whether a proxy is of such a workload.
	Handles(p *mesh.Proxy) bool
	// Connect is told of a proxy before it is served. nil: it is not kept after all. The error is a gRPC status, with which the
	// stream ends.
	Connect(ctx context.Context, p *mesh.Proxy) (Workload, error)
}

// Workload is one stream of a workload.
type Workload interface {
	// Health is what the agent says of how the application fares. The message is empty if it is well.
	SetHealth(healthy bool, message string)
	// Close says that the stream has ended.
	Close()
}

// healthType is what agents send the state of a workload with. Such a request may come before any other, without a node. It says
// that the workload is not well by an error_detail.
const healthType = "type.googleapis.com/istio.v1.HealthInformation"

var errPlaintextRegistration = status.Error(codes.PermissionDenied,
	"workloads are not registered over plain text: connect over TLS, or set MESHPILOT_PLAINTEXT_REGISTRATION")

// register tells of a workload that it is here, and gives what tells that it is not any more. That may take some time, during
// which the stream must not take the place of others: leave gives it up.
func (x *session) register(in first, leave func()) (unregister func(), err error) {
	none := func() {}
	if x.s.workloads == nil || !x.s.workloads.Handles(in.proxy) {
		return none, nil
	}
	if !x.link.secure() && !x.s.registerPlaintext {
		return none, errPlaintextRegistration
	}
	leave()
	if x.workload, err = x.s.workloads.Connect(x.ctx, in.proxy); err != nil || x.workload == nil {
		return none, err
	}
	if in.health != nil {
		x.tellHealth(in.health)
	}
	return x.workload.Close, nil
}

func (x *session) tellHealth(in *incoming) {
	if x.workload != nil {
		x.workload.SetHealth(!in.Rejected, truncate.Text(in.Message, stream.MaxNackMessage))
	}
}

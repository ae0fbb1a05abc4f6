package server

import (
	"context"
	"slices"
	"sync"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/xds/stream"
)

// register is a workload registry that records its calls.
type register struct {
	refuse error

	mu    sync.Mutex
	calls []string
}

func (r *register) record(text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls = append(r.calls, text)
}

func (r *register) Handles(p *mesh.Proxy) bool { return p.Metadata.AutoRegisterGroup != "" }

func (r *register) Connect(_ context.Context, p *mesh.Proxy) (Workload, error) {
	if r.refuse != nil {
		return nil, r.refuse
	}
	r.record("here: " + p.Metadata.AutoRegisterGroup)
	return r, nil
}

func (r *register) SetHealth(healthy bool, message string) {
	if healthy {
		message = "well"
	}
	r.record(message)
}

func (r *register) Close() { r.record("gone") }

func (r *register) has(want ...string) func() bool {
	return func() bool { r.mu.Lock(); defer r.mu.Unlock(); return slices.Equal(r.calls, want) }
}

func TestWorkloadsAreRegistered(t *testing.T) {
	for _, mode := range []stream.Mode{stream.SotW, stream.Delta} {
		t.Run(mode.String(), func(t *testing.T) {
			r := new(register)
			h := serve(t, 3, Options{Workloads: r, RegisterPlaintext: true})
			node := testNode(0)
			node.Metadata.Fields["AUTO_REGISTER_GROUP"] = structpb.NewStringValue("vms")
			c := h.connect(mode, nil)
			c.ask(healthType, nil, nil) // before the node is known
			c.node = node
			c.ask(api.ClusterType, nil, nil)
			c.ack(c.want(api.ClusterType), nil, "")
			h.wait("the workload is registered as healthy", r.has("here: vms", "well"))
			c.ack(answer{typeURL: healthType}, nil, "connection refused")
			h.wait("the workload is unhealthy", r.has("here: vms", "well", "connection refused"))
			c.ask(healthType, nil, nil)
			h.wait("the workload is healthy again", r.has("here: vms", "well", "connection refused", "well"))
			c.end()
			h.wait("the workload is disconnected", r.has("here: vms", "well", "connection refused", "well", "gone"))

			other := h.connect(mode, testNode(1))
			other.ask(api.ClusterType, nil, nil)
			other.want(api.ClusterType)
			other.ask(healthType, nil, nil)
			other.end()
			r.refuse = status.Error(codes.PermissionDenied, "no")
			again := testNode(2)
			again.Metadata.Fields["AUTO_REGISTER_GROUP"] = structpb.NewStringValue("vms")
			c = h.connect(mode, again)
			c.ask(api.ClusterType, nil, nil)
			if err := c.wantEnd(); status.Code(err) != codes.PermissionDenied {
				t.Errorf("the stream of a refused workload ended with %v, want PermissionDenied", err)
			}
			if !r.has("here: vms", "well", "connection refused", "well", "gone")() {
				t.Errorf("unexpected calls for other proxies: %q", r.calls)
			}
		})
	}
}

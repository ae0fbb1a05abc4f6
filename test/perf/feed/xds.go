package feed

import (
	"errors"
	"fmt"
	"net"
	"sync"

	"google.golang.org/grpc"

	"github.com/meshpilot/meshpilot/test/perf/fleet"
	"github.com/meshpilot/meshpilot/test/perf/wire"
	"github.com/meshpilot/meshpilot/test/perf/workload"
)

// XDS serves the mesh as Istio config over xDS. In SotW the whole type is sent for each change,
// which is the protocol; in delta only the object does.
type XDS struct {
	server *grpc.Server
	done   chan struct{}

	mu      sync.Mutex
	types   map[string][]*workload.Object
	encoded map[*workload.Object][]byte // as an Any
	version int
	clients map[*client]struct{}
	nacks   []string
}

var _ Feed = (*XDS)(nil)

// NewXDS serves the mesh on an address of this machine.
func NewXDS(m *workload.Mesh, address string) (*XDS, error) {
	if err := fleet.CheckLoopback(address); err != nil {
		return nil, err
	}
	f := &XDS{
		done: make(chan struct{}), types: map[string][]*workload.Object{}, encoded: map[*workload.Object][]byte{},
		clients: map[*client]struct{}{},
	}
	for _, o := range m.Objects() {
		if err := f.storeObject(o); err != nil {
			return nil, err
		}
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("serve config over xDS: %w", err)
	}
	const maxRequest = 64 << 20
	f.server = grpc.NewServer(grpc.ForceServerCodecV2(wire.Codec{}), grpc.MaxRecvMsgSize(maxRequest))
	f.server.RegisterService(&grpc.ServiceDesc{
		ServiceName: "envoy.service.discovery.v3.AggregatedDiscoveryService", HandlerType: (*any)(nil),
		Streams: []grpc.StreamDesc{
			{StreamName: "StreamAggregatedResources", ClientStreams: true, ServerStreams: true,
				Handler: func(_ any, st grpc.ServerStream) error { return f.serveStream(st, false) }},
			{StreamName: "DeltaAggregatedResources", ClientStreams: true, ServerStreams: true,
				Handler: func(_ any, st grpc.ServerStream) error { return f.serveStream(st, true) }},
		},
	}, struct{}{})
	go func() {
		_ = f.server.Serve(l) // if it fails, so does the first change
		close(f.done)
	}()
	return f, nil
}

// storeObject takes an object in, or its new state. f.mu is held, or f is not shared yet.
func (f *XDS) storeObject(o *workload.Object) error {
	b, err := encodeObject(o)
	if err != nil {
		return err
	}
	if _, ok := f.encoded[o]; !ok {
		f.types[o.TypeURL()] = append(f.types[o.TypeURL()], o)
	}
	f.encoded[o] = b
	return nil
}

// removeObject takes an object out. f.mu is held.
func (f *XDS) removeObject(o *workload.Object) {
	delete(f.encoded, o)
	list := f.types[o.TypeURL()]
	for i := range list {
		if list[i] == o {
			f.types[o.TypeURL()] = append(list[:i:i], list[i+1:]...)
			return
		}
	}
}

// Apply sends the change to every control plane that subscribes to the type.
func (f *XDS) Apply(e workload.Edit, begin func()) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	var err error
	if e.Removed {
		f.removeObject(e.Object)
	} else {
		err = f.storeObject(e.Object)
	}
	switch {
	case err != nil:
		return err
	case len(f.nacks) > 0:
		return fmt.Errorf("the control plane refused %v", f.nacks)
	case len(f.clients) == 0:
		return errors.New("the control plane is not connected to the config source")
	}
	url := e.Object.TypeURL()
	messages := map[*client][]byte{}
	for c := range f.clients {
		switch {
		case !c.types[url]:
		case c.delta:
			messages[c] = f.deltaResponse(e)
		default:
			messages[c] = f.fullResponse(url)
		}
	}
	begin()
	for c, b := range messages {
		if err := c.stream.SendMsg(b); err != nil {
			return fmt.Errorf("send a change of %s: %w", url, err)
		}
	}
	return nil
}

// Close ends all streams.
func (f *XDS) Close() {
	f.server.Stop()
	<-f.done
}

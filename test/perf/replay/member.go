package replay

import (
	"sync"

	"google.golang.org/grpc"

	"github.com/meshpilot/meshpilot/internal/base/notify"
	"github.com/meshpilot/meshpilot/test/perf/wire"
)

// member is the stream of a proxy.
type member struct {
	st grpc.ServerStream
	// ended is closed when the group ends.
	ended chan struct{}
	wake  notify.Wake

	mu    sync.Mutex
	queue [][]byte // responses that are not sent yet

	// asked has the type URLs that the stream has requested. It belongs to the group.
	asked map[string]bool
}

func newMember(st grpc.ServerStream) *member {
	return &member{st: st, ended: make(chan struct{}), wake: notify.NewWake(), asked: map[string]bool{}}
}

// enqueue adds a response to the queue, from which run sends it.
func (x *member) enqueue(response []byte) {
	x.mu.Lock()
	x.queue = append(x.queue, response)
	x.mu.Unlock()
	x.wake.Notify()
}

// run runs the functions, and sends the queued responses, until one of the functions returns, a
// response cannot be sent, or the group ends. The context of the stream ends with the return of its
// handler, so the functions end too.
func (x *member) run(functions ...func() error) error {
	done := make(chan error, len(functions))
	for _, f := range functions {
		go func() { done <- f() }()
	}
	for {
		x.mu.Lock()
		list := x.queue
		x.queue = nil
		x.mu.Unlock()
		for _, response := range list {
			if err := x.st.SendMsg(response); err != nil {
				return err
			}
		}
		select {
		case err := <-done:
			return err
		case <-x.ended:
			return errLeaderLeft
		case <-x.wake.C():
		}
	}
}

// follow reads the requests of a stream and sends the responses of its group.
// typeURL is that of the first request.
func (x *member) follow(g *group, typeURL string) error {
	g.request(x, typeURL)
	return x.run(func() error {
		for {
			var f wire.Frame
			if err := x.st.RecvMsg(&f); err != nil {
				return err
			}
			r, err := parseRequest(f.Bytes())
			f.Free()
			if err != nil {
				return err
			}
			if !r.ack {
				g.request(x, r.typeURL)
			}
		}
	})
}

package localmesh

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"

	"github.com/meshpilot/meshpilot/internal/base/netns"
	"github.com/meshpilot/meshpilot/internal/diagnostics/localmesh/control"
)

// The actions of the socket.
const (
	actionAwait   = "await"
	actionStatus  = "status"
	actionExec    = "exec"
	actionRun     = "run"
	actionForward = "forward"
	actionPublish = "publish"
	actionStop    = "stop"
)

// consolePort is the HTTP port of the control plane in its node.
const consolePort = "127.0.0.1:8080"

// Status is the state of a mesh.
type Status struct {
	// Dir is the directory of its state, with the logs.
	Dir string `json:"dir"`
	// Console is the address on this machine at which the control plane is served.
	Console   string           `json:"console,omitempty"`
	Workloads []WorkloadStatus `json:"workloads"`
	// Problems are the mistakes in manifests, as far as they concern what is run.
	Problems []string `json:"problems,omitempty"`
}

// WorkloadStatus is the state of a workload.
type WorkloadStatus struct {
	Name      string  `json:"name"`
	Namespace string  `json:"namespace"`
	Address   string  `json:"address,omitempty"`
	Ports     []int32 `json:"ports,omitempty"`
	State     string  `json:"state"`
	Reason    string  `json:"reason,omitempty"`
	Restarts  int     `json:"restarts"`
	// Logs is the directory of its logs.
	Logs string `json:"logs"`
}

// handlers returns the handlers of the socket by action: await, status, exec, run, forward, publish
// and stop. mesh is the context of the mesh, which outlives requests. stop ends the mesh, and does
// not answer before this process has ended.
func (s *Supervisor) handlers(mesh context.Context) map[string]control.Handler {
	return map[string]control.Handler{
		actionAwait: s.await,
		actionStatus: func(context.Context, *control.Call) (control.Result, error) {
			return control.Result{Value: s.status()}, nil
		},
		actionExec: s.exec,
		actionRun: func(ctx context.Context, c *control.Call) (control.Result,
			error) {
			return s.run(ctx, mesh, c)
		},
		actionForward: s.forward,
		actionPublish: func(_ context.Context, c *control.Call) (control.Result, error) { return s.publish(mesh, c) },
		actionStop: func(ctx context.Context, _ *control.Call) (control.Result, error) {
			s.stop()
			<-ctx.Done() // the client waits until this process has ended
			return control.Result{}, nil
		},
	}
}

// await reports the progress until all workloads have been ready or have failed, and returns the
// status. It returns an error if the mesh could not be started, or ctx ends first.
func (s *Supervisor) await(ctx context.Context, c *control.Call) (control.Result, error) {
	shown := 0
	for {
		settled := isClosed(s.settled)
		lines, more := s.progress.since(shown)
		for _, line := range lines {
			c.Progress(line)
		}
		shown += len(lines)
		if settled {
			return control.Result{Value: s.status()}, s.failure
		}
		select {
		case <-more:
		case <-s.settled:
		case <-ctx.Done():
			return control.Result{}, ctx.Err()
		}
	}
}

// isClosed reports whether c is closed, without blocking. It consumes a pending value and then
// returns true, too.
func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// status returns the state of the mesh, with workloads ordered by namespace and name. Workloads
// without an address yet have none. It locks s.mu.
func (s *Supervisor) status() Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	status := Status{Dir: s.options.Dir, Console: s.consoleAt, Problems: s.problems, Workloads: []WorkloadStatus{}}
	for name, w := range s.workloads {
		state, reason, restarts := w.current()
		one := WorkloadStatus{
			Name: w.spec.Name, Namespace: w.spec.Namespace, State: state, Reason: reason, Restarts: restarts,
			Logs: s.logDirectory(name),
		}
		if addr, ok := s.addresses.assigned[name]; ok {
			one.Address = addr.String()
		}
		for _, p := range w.spec.Programs {
			one.Ports = append(one.Ports, p.Ports...)
		}
		status.Workloads = append(status.Workloads, one)
	}
	slices.SortFunc(status.Workloads, func(x, y WorkloadStatus) int {
		return cmp.Or(strings.Compare(x.Namespace, y.Namespace), strings.Compare(x.Name, y.Name))
	})
	return status
}

// findNode returns the node of a workload, by NAME.NAMESPACE, or by NAME if that is unique. istiod
// is the control plane. It returns an error if there is no such workload, several, or one without a
// node yet. It locks s.mu.
func (s *Supervisor) findNode(name string) (*netns.Node, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if name == controlPlaneName && s.plane != nil {
		return s.plane.Node, nil
	}
	var found []*workload
	for full, w := range s.workloads {
		if full == name || w.spec.Name == name {
			found = append(found, w)
		}
	}
	names := strings.Join(slices.Sorted(maps.Keys(s.workloads)), ", ")
	switch {
	case len(found) == 0:
		return nil, fmt.Errorf("there is no workload %q in the mesh; there are %s", name, cmp.Or(names, "none"))
	case len(found) > 1:
		return nil, fmt.Errorf("%q names workloads of several namespaces: add the namespace; there are %s", name, names)
	}
	if node := s.network.Node(found[0].spec.FullName()); node != nil {
		return node, nil
	}
	return nil, fmt.Errorf("the workload %q is starting", name)
}

// exec runs a command of a client in a node. The result has its exit status. It returns an error if
// the node is not found.
func (s *Supervisor) exec(ctx context.Context, c *control.Call) (control.Result, error) {
	node, err := s.findNode(c.Node)
	if err != nil {
		return control.Result{}, err
	}
	status, err := control.Exec(ctx, c, node)
	return control.Result{Status: status}, err
}

// forward forwards a client's listener to an address of a node while the client is connected. The
// address is the only argument; it refuses a call with another number of them.
func (s *Supervisor) forward(ctx context.Context, c *control.Call) (control.Result, error) {
	if len(c.Args) != 1 {
		return control.Result{}, errors.New("forwarding takes an address")
	}
	node, err := s.findNode(c.Node)
	if err != nil {
		return control.Result{}, err
	}
	return control.Result{}, control.Forward(ctx, c, node, c.Args[0])
}

// publish serves the control plane at a client's listener from when it is ready until the mesh
// ends, and records the listener's address for the status. It does not wait for that: while
// workloads start, or if they cannot, users may ask the control plane why. It refuses a call
// without exactly one descriptor.
func (s *Supervisor) publish(mesh context.Context, c *control.Call) (control.Result, error) {
	if len(c.Files) != 1 {
		return control.Result{}, errors.New("publishing takes a listener")
	}
	l, err := net.FileListener(c.Files[0])
	if err != nil {
		return control.Result{}, err
	}
	s.mu.Lock()
	s.consoleAt = l.Addr().String()
	s.mu.Unlock()
	go func() {
		select {
		case <-s.started:
		case <-mesh.Done():
		}
		if mesh.Err() != nil || s.failure != nil {
			_ = l.Close() // no connection was accepted
			return
		}
		if err := control.ForwardListener(mesh, l, s.plane.Node, consolePort); mesh.Err() == nil {
			s.log.Error("serving the control plane on this machine failed", "address", l.Addr().String(), "error", err)
		}
	}()
	return control.Result{}, nil
}

package fleet

import (
	"context"
	"fmt"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/meshpilot/meshpilot/internal/base/notify"
	"github.com/meshpilot/meshpilot/test/perf/workload"
)

// Options are how a fleet behaves.
type Options struct {
	// Addresses are those of the control planes, all on this machine: host:port of loopback
	// addresses. Each connection tries them in random order, as pilot-agent tries the addresses of a
	// name.
	Addresses []string
	// MaxBackoff is the longest interval between streams that fail (default 5 s, to keep runs short;
	// Envoy's is 30 s).
	MaxBackoff time.Duration
	// Delta speaks the incremental protocol instead of SotW.
	Delta bool
	// TLS returns the credentials of a proxy; nil: plain text.
	TLS func(n workload.Node) (credentials.TransportCredentials, error)
	// Check decodes in full one of so many distinct resources; 0: none.
	Check int
}

// Fleet is simulated proxies. They do nothing before they are part of a [Round].
type Fleet struct {
	options Options
	library *library
	count   counters
	proxies []*proxy
	build   []byte // the part of the node that all proxies have in common

	stop    context.CancelFunc
	running sync.WaitGroup

	changesMu sync.RWMutex
	changes   map[workload.Mark]*Change

	mu      sync.Mutex
	endings map[string]int
}

// New makes a fleet of the nodes. Close ends it. It returns an error if an address is not on this
// machine or the credentials of a proxy cannot be made.
func New(o Options, nodes []workload.Node) (*Fleet, error) {
	for _, address := range o.Addresses {
		if err := CheckLoopback(address); err != nil {
			return nil, err
		}
	}
	if o.MaxBackoff <= 0 {
		o.MaxBackoff = defaultMaxBackoff
	}
	build, err := workload.EnvoyBuild()
	if err != nil {
		return nil, err
	}
	f := &Fleet{
		options: o, library: newLibrary(o.Check), build: build,
		changes: map[workload.Mark]*Change{}, endings: map[string]int{},
	}
	ctx, stop := context.WithCancel(context.Background())
	f.stop = stop
	for i, n := range nodes {
		p := &proxy{
			f:           f,
			index:       i,
			node:        n.Bytes,
			credentials: insecure.NewCredentials(),
			wake:        notify.NewWake(),
			listeners:   map[int32]*book{},
		}
		if o.TLS != nil {
			c, err := o.TLS(n)
			if err != nil {
				stop()
				return nil, fmt.Errorf("credentials of proxy %d: %w", i, err)
			}
			p.credentials = c
		}
		p.absent.Store(true)
		f.proxies = append(f.proxies, p)
	}
	for _, p := range f.proxies {
		f.running.Go(func() { p.runProxy(ctx) })
	}
	return f, nil
}

// CheckLoopback refuses to talk to anything but this machine.
func CheckLoopback(address string) error {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("address %q: %w", address, err)
	}
	if ip := net.ParseIP(host); ip == nil || !ip.IsLoopback() {
		return fmt.Errorf("address %q: is not a loopback IP address", address)
	}
	return nil
}

// IndexRange are the numbers from a to b, without b.
func IndexRange(a, b int) []int {
	list := make([]int, 0, b-a)
	for i := a; i < b; i++ {
		list = append(list, i)
	}
	return list
}

// Close disconnects all proxies and waits until they have ended.
func (f *Fleet) Close() {
	f.stop()
	f.running.Wait()
}

// recordEnd notes why a stream ended without the fleet's doing.
func (f *Fleet) recordEnd(err error) {
	const distinct = 5
	f.count.reconnects.Add(1)
	f.mu.Lock()
	defer f.mu.Unlock()
	if s := err.Error(); len(f.endings) < distinct || f.endings[s] > 0 {
		f.endings[s]++
	}
}

package zeroloss

import (
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"

	"github.com/meshpilot/meshpilot/test/resilience/zeroloss/echo"
)

// The addresses of the gateway's proxies. An EnvoyFilter sets that of the second one's listeners.
const firstProxy, secondProxy = "127.0.0.1", "127.0.0.3"

// secondLabels select the Gateway of the second proxy, and the EnvoyFilter.
const secondLabels = `ISTIO_METAJSON_LABELS={"gateway.networking.k8s.io/gateway-name":"edge","proxy":"second"}`

// scaleUp starts a second proxy of the gateway. When it is ready, it takes new connections.
func (s *gatewayStage) scaleUp() {
	s.second = s.edge.StartProxy("second", secondProxy, secondLabels, "EXIT_ON_ZERO_ACTIVE_CONNECTIONS=true", "MINIMUM_DRAIN_DURATION=1s")
	s.balancer.addSecond()
}

// scaledUp returns an error unless the second proxy has answered in all lanes that use it.
func (s *gatewayStage) scaledUp() error {
	for _, lane := range s.allLanes() {
		if !lane.Kind.Long() && !s.balancer.hasServed(lane.Name) {
			return fmt.Errorf("%s: no reply by the second proxy", lane.Name)
		}
	}
	return nil
}

// scaleDown ends the second proxy, which takes no new connections any more: it ends when its clients have
// closed theirs.
func (s *gatewayStage) scaleDown() {
	s.balancer.removeSecond()
	s.second.Stop()
}

// balancer is the load balancer in front of the gateway. It assigns connections by the worker
// that opens them.
type balancer struct {
	mu     sync.Mutex
	second bool            // the second proxy takes new connections
	added  int             // how often it was added
	served map[string]bool // lanes that it has answered since
}

func (b *balancer) addSecond() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.second, b.served = true, map[string]bool{}
	b.added++
}

// removeSecond keeps new connections from the second proxy. Open ones are not closed.
func (b *balancer) removeSecond() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.second = false
}

// proxyOf returns the address to which a worker connects.
func (b *balancer) proxyOf(worker int) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.second && worker%2 == 1 {
		return secondProxy
	}
	return firstProxy
}

func (b *balancer) timesAdded() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.added
}

func (b *balancer) recordReply(lane, proxy string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if proxy == secondProxy {
		b.served[lane] = true
	}
}

func (b *balancer) hasServed(lane string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.served[lane]
}

// dialProxy connects to the proxy of an address.
type dialProxy func(ctx context.Context, proxy string) (net.Conn, error)

// balancedCaller is a caller of one worker, behind the balancer. When the second proxy is added, it
// reconnects, as clients do after some time: a kept connection would never reach that proxy. When
// the proxy is removed, it does nothing: the proxy has to end connections so that no request is
// lost.
type balancedCaller struct {
	balancer *balancer
	lane     string
	connect  func(echo.Dial) echo.Caller
	dial     echo.Dial
	proxy    atomic.Value // the address of the newest connection
	current  echo.Caller
	added    int
}

// newCaller returns the caller of a worker. Workers with an even number always use the first proxy.
func (b *balancer) newCaller(lane string, worker int, connect func(echo.Dial) echo.Caller, dial dialProxy) *balancedCaller {
	c := &balancedCaller{balancer: b, lane: lane, connect: connect, added: b.timesAdded()}
	c.dial = func(ctx context.Context, _, _ string) (net.Conn, error) {
		proxy := b.proxyOf(worker)
		c.proxy.Store(proxy)
		return dial(ctx, proxy)
	}
	c.current = connect(c.dial)
	return c
}

func (c *balancedCaller) Call(ctx context.Context, id string) (echo.Reply, error) {
	if added := c.balancer.timesAdded(); added != c.added {
		c.current.Close()
		c.current, c.added = c.connect(c.dial), added
	}
	r, err := c.current.Call(ctx, id)
	proxy, _ := c.proxy.Load().(string)
	if err != nil {
		return r, fmt.Errorf("by %s: %w", proxy, err)
	}
	c.balancer.recordReply(c.lane, proxy)
	return r, nil
}

func (c *balancedCaller) Close() { c.current.Close() }

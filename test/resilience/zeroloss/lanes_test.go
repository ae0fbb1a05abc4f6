package zeroloss

import (
	"context"
	"net"
	"net/http"
	"strconv"

	"github.com/meshpilot/meshpilot/test/resilience/zeroloss/echo"
	"github.com/meshpilot/meshpilot/test/resilience/zeroloss/load"
)

// host is a destination of requests.
type host struct {
	name    string // of its objects
	domain  string
	address string // at which capture and Envoy find it
	share   int    // requests go there at a rate divided by it
}

func hosts() []host {
	list := []host{{"echo", "echo.mesh", "10.96.1.1", 1}, {"dual", "dual.mesh", "10.96.1.2", 4}}
	if *controlPlane == "" { // others may not read Kubernetes' objects from a directory
		list = append(list, host{"kube", "kube.default.svc.cluster.local", "10.96.1.3", 8})
	}
	return list
}

// servicePorts are the ports of all hosts, and of the servers' ports those whose protocol their
// sidecar knows. At rawPorts it does not know the protocol.
func servicePorts() echo.Ports { return echo.Ports{HTTP: 8080, HTTP2: 8082, GRPC: 7070, TCP: 9000} }
func rawPorts() echo.Ports     { return echo.Ports{HTTP: 18080, HTTP2: 18082, GRPC: 17070, TCP: 19000} }

// lanes are all kinds to all hosts, together some 1,300 requests a second.
func (w *world) lanes() []load.Lane {
	var list []load.Lane
	for _, h := range hosts() {
		dial := w.dial(h)
		for kind, rate := range map[echo.Kind]int{
			echo.HTTP: 240, echo.HTTPClose: 80, echo.HTTP2: 160, echo.GRPC: 160,
			echo.GRPCStream: 120, echo.GRPCOpen: 80, echo.TCP: 120, echo.TCPOpen: 60,
		} {
			rate /= h.share
			list = append(list, load.Lane{
				Name: h.name + " " + string(kind), Kind: kind, Rate: rate, Workers: max(1, rate/20), Timeout: requestTime,
				Caller: func() echo.Caller { return echo.NewCaller(kind, dial, h.domain, servicePorts()) },
			})
		}
	}
	return list
}

// dial connects from the client to a host.
func (w *world) dial(h host) echo.Dial {
	client := w.Workload("client").Node
	return func(ctx context.Context, network, target string) (net.Conn, error) {
		_, port, err := net.SplitHostPort(target)
		if err != nil {
			return nil, err
		}
		return client.Dial(ctx, network, net.JoinHostPort(h.address, port))
	}
}

// client is a client of echo.mesh that reuses its connection.
func (w *world) client() *http.Client {
	return &http.Client{Transport: &http.Transport{DialContext: w.dial(hosts()[0]), MaxIdleConnsPerHost: 1}, Timeout: requestTime}
}

// generation returns the number in a reply's header, or 0 without the header.
func generation(r echo.Reply) int {
	n, err := strconv.Atoi(r.Generation)
	if err != nil {
		return 0
	}
	return n
}

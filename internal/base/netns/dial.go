package netns

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"time"
)

// Dial connects from the node, resolving names by the node's hosts (Resolve), without DNS. Network
// and address have the same meaning as in net.Dial; the port must be a number. It returns an error
// if the name is unknown, the node is closed or the connection fails.
func (n *Node) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("dialing from node %q: %w", n.name, err)
	}
	addr, err := n.Resolve(host)
	if err != nil {
		return nil, err
	}
	var conn net.Conn
	err = n.Do(func() (err error) {
		// A literal address, so that the dialer opens the socket on this very thread.
		conn, err = (&net.Dialer{}).DialContext(ctx, network, net.JoinHostPort(addr.String(), port))
		return err
	})
	return conn, err
}

// Listen announces on an address of the node. The listener may be used from anywhere. It returns an
// error if the node is closed or the address cannot be used.
func (n *Node) Listen(network, address string) (net.Listener, error) {
	var l net.Listener
	err := n.Do(func() (err error) {
		l, err = net.Listen(network, address)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("listening on node %q: %w", n.name, err)
	}
	return l, nil
}

// Transport returns an HTTP transport whose connections are made from the node and kept alive,
// without a proxy. The caller may change it before use, and must close it by CloseIdleConnections.
func (n *Node) Transport() *http.Transport {
	return &http.Transport{DialContext: n.Dial, MaxIdleConnsPerHost: 64, IdleConnTimeout: time.Minute}
}

// Client returns an HTTP client with a Transport of its own. timeout bounds a whole request;
// redirects are returned, not followed.
func (n *Node) Client(timeout time.Duration) *http.Client {
	return &http.Client{
		Transport:     n.Transport(),
		Timeout:       timeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

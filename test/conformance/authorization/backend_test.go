package authorization

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"google.golang.org/grpc"

	"github.com/meshpilot/meshpilot/test/support/serving"
)

// serve starts what clusters lead to, until the test ends.
func serve(t testing.TB) servers {
	t.Helper()
	web := listen(t)
	go func() { _ = http.Serve(web, http.HandlerFunc(answerByHeader)) }()
	calls := listen(t)
	server := grpc.NewServer()
	authv3.RegisterAuthorizationServer(server, authorizer{})
	go func() { _ = server.Serve(calls) }()
	t.Cleanup(server.Stop)
	return servers{
		http: accept(t, answerRequests), bytes: accept(t, echo), httpAuthorizer: at(web), grpcAuthorizer: at(calls),
		nobody: netip.MustParseAddrPort(serving.FreeAddress(t)),
	}
}

func listen(t testing.TB) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

func at(l net.Listener) netip.AddrPort { return netip.MustParseAddrPort(l.Addr().String()) }

// accept serves each connection by a function, which ends when the connection does.
func accept(t testing.TB, serve func(net.Conn)) netip.AddrPort {
	t.Helper()
	l := listen(t)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				serve(c)
			}()
		}
	}()
	return at(l)
}

// forged marks the values of headers that the application must not receive.
const forged = "forged"

// answerRequests answers every request with its path, exactly as received, because an HTTP library
// would refuse some of them. The answer also lists the names of received headers with the forged
// mark.
func answerRequests(c net.Conn) {
	in := bufio.NewReader(c)
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return
		}
		var seen []string
		for header := ""; header != "\r\n"; {
			if header, err = in.ReadString('\n'); err != nil {
				return
			}
			if name, value, _ := strings.Cut(header, ":"); strings.Contains(value, forged) {
				seen = append(seen, strings.ToLower(name))
			}
		}
		method, rest, _ := strings.Cut(line, " ")
		path := rest[:max(strings.LastIndex(rest, " "), 0)]
		if method == http.MethodHead {
			path = ""
		}
		if _, err := fmt.Fprintf(c, "HTTP/1.1 200 OK\r\n%s: %s\r\ncontent-length: %d\r\n\r\n%s", seenHeader, strings.Join(seen, ","), len(path), path); err != nil {
			return
		}
	}
}

func echo(c net.Conn) { _, _ = io.Copy(c, c) }

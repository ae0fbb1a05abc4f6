package dataplane

import (
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"github.com/meshpilot/meshpilot/internal/base/netns"
)

// Ports of the called service, which are those of its application too. httpPort is declared HTTP.
const httpPort, http2Port, grpcPort, tcpPort = 8080, 8081, 8082, 9000

// bodySize is the number of bytes of requests and responses with a body.
const bodySize = 1 << 10

// grpcMessage is a gRPC message of a few bytes in its frame, for requests and responses.
const grpcMessage = "\x00\x00\x00\x00\x05hello"

// application is the called application: it answers HTTP, gRPC and TCP.
type application struct {
	server    *http.Server
	listeners []net.Listener
	running   sync.WaitGroup
}

// startApplication starts the application in a network node.
func startApplication(n *netns.Node) (*application, error) {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	a := &application{server: &http.Server{Handler: http.HandlerFunc(answer), Protocols: protocols}}
	for _, port := range []int{httpPort, http2Port, grpcPort, tcpPort} {
		l, err := n.Listen("tcp", ":"+strconv.Itoa(port))
		if err != nil {
			return nil, errors.Join(err, a.close())
		}
		a.listeners = append(a.listeners, l)
		if port == tcpPort {
			a.running.Go(func() { a.echo(l) })
			continue
		}
		a.running.Go(func() { _ = a.server.Serve(l) }) // it ends when it is closed
	}
	return a, nil
}

// identifiedHeader is set in responses to requests that came with a client's certificate.
const identifiedHeader = "X-Identified"

// answer answers a gRPC call with a message, and every other request with bodySize bytes.
func answer(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	if r.Header.Get("X-Forwarded-Client-Cert") != "" {
		w.Header().Set(identifiedHeader, "true")
	}
	if !strings.HasPrefix(r.Header.Get("Content-Type"), "application/grpc") {
		_, _ = io.WriteString(w, strings.Repeat("x", bodySize))
		return
	}
	w.Header().Set("Content-Type", "application/grpc")
	w.Header().Set("Trailer", "Grpc-Status")
	_, _ = io.WriteString(w, grpcMessage)
	w.Header().Set("Grpc-Status", "0")
}

// echo returns what it receives on each connection.
func (a *application) echo(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		a.running.Go(func() {
			defer c.Close()
			_, _ = io.Copy(c, c)
		})
	}
}

// close ends the application. Connections of TCP clients must have ended.
func (a *application) close() error {
	errs := []error{a.server.Close()}
	for _, l := range a.listeners {
		if err := l.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			errs = append(errs, err)
		}
	}
	a.running.Wait()
	return errors.Join(errs...)
}

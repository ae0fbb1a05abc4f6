package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
)

// Port is an open port with its gRPC server.
type Port struct {
	// GRPC is the server, on which services are registered before ServePorts.
	GRPC *grpc.Server
	// Secure reports whether the port has TLS.
	Secure bool

	flag     string
	listener net.Listener
}

// OpenPort listens on the TCP address and returns a Port with a gRPC server that has
// ServerOptions(t) and options. flag is the command line flag that sets the address; errors name
// it. Connections are accepted only by ServePorts.
func OpenPort(flag, address string, t Transport, options ...grpc.ServerOption) (*Port, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", flag, err)
	}
	all := append(options[:len(options):len(options)], ServerOptions(t)...)
	return &Port{GRPC: grpc.NewServer(all...), Secure: t.TLS != nil, flag: flag, listener: l}, nil
}

// PortAddress is an address that OpenPorts opens. Flag is the flag that sets it. If TLS is nil, the
// port is in plain text.
type PortAddress struct {
	Flag, Address string
	TLS           *tls.Config
}

// OpenPorts opens a port for each address, in this order, with the Transport t but the TLS of the
// address. If one cannot be opened, it closes the ports that it has opened and returns the error.
func OpenPorts(list []PortAddress, t Transport, options ...grpc.ServerOption) ([]*Port, error) {
	var ports []*Port
	for _, a := range list {
		t.TLS = a.TLS
		p, err := OpenPort(a.Flag, a.Address, t, options...)
		if err != nil {
			for _, open := range ports {
				open.Close()
			}
			return nil, err
		}
		ports = append(ports, p)
	}
	return ports, nil
}

// Close closes a port that ServePorts has not served.
func (p *Port) Close() { _ = p.listener.Close() } // Nothing was served on it.

// Address returns the address on which the port listens.
func (p *Port) Address() string { return p.listener.Addr().String() }

// Protocol returns how clients talk to the port: "in plain text" or "over TLS".
func (p *Port) Protocol() string {
	if p.Secure {
		return "over TLS"
	}
	return "in plain text"
}

// ServePorts serves on all ports until ctx ends or a port fails. Then it calls stopping, which must
// not be nil, and stops the ports one after another. It waits up to shutdown for the streams of
// each port before it terminates them. It returns the error of the first port that failed,
// otherwise nil.
func ServePorts(ctx context.Context, ports []*Port, stopping func(), shutdown time.Duration) error {
	serving, ctx := errgroup.WithContext(ctx)
	for _, p := range ports {
		serving.Go(func() error {
			if err := p.GRPC.Serve(p.listener); err != nil && !errors.Is(err, grpc.ErrServerStopped) {
				return fmt.Errorf("%s: %w", p.flag, err)
			}
			return nil
		})
	}
	<-ctx.Done()
	stopping()
	for _, p := range ports {
		terminate := time.AfterFunc(shutdown, p.GRPC.Stop)
		p.GRPC.GracefulStop()
		terminate.Stop()
	}
	return serving.Wait()
}

package controlplane

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"
)

// TestOnlyAddressesAreLookedUp tests that a control plane that is in /etc/hosts is reached without
// a name server.
func TestOnlyAddressesAreLookedUp(t *testing.T) {
	asked := make(chan struct{}, 16)
	usual := net.DefaultResolver
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		asked <- struct{}{}
		return nil, errors.New("no name server")
	}}
	t.Cleanup(func() { net.DefaultResolver = usual })

	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	go func() { _ = server.Serve(l) }()
	t.Cleanup(server.Stop)

	_, port, _ := net.SplitHostPort(l.Addr().String())
	connection, err := Target{Plaintext: true}.NewConnection("localhost:" + port)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = connection.Close() })
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for connection.Connect(); ; {
		state := connection.GetState()
		if state == connectivity.Ready {
			break
		}
		if !connection.WaitForStateChange(ctx, state) {
			t.Fatalf("the connection is still %v", state)
		}
	}
	if len(asked) != 0 {
		t.Errorf("name servers were asked %d times; want the address from /etc/hosts alone", len(asked))
	}
}

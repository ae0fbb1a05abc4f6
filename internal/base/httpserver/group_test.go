package httpserver

import (
	"context"
	"net"
	"net/http"
	"strings"
	"testing"
)

// listen returns a listener on a free port of this machine.
func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// TestGroup checks that servers outlast the context of the other parts, and end with Stop.
func TestGroup(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	g := NewGroup(ctx)
	l := listen(t)
	g.Serve(l, Options{Handler: http.NotFoundHandler()})
	cancel()
	if err := g.Await(ctx); err != nil {
		t.Errorf("Await after the end of the context returned %v", err)
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	r, err := client.Get("http://" + l.Addr().String())
	if err != nil {
		t.Fatalf("after the end of the context: %v", err)
	}
	_ = r.Body.Close()
	if err := g.Stop(); err != nil {
		t.Errorf("Stop returned %v", err)
	}
	if c, err := net.Dial("tcp", l.Addr().String()); err == nil {
		_ = c.Close()
		t.Error("the port is open after Stop")
	}
}

// TestGroupFails checks that a server that fails ends the others, and that Await and Stop return
// its error.
func TestGroupFails(t *testing.T) {
	g := NewGroup(t.Context())
	broken := listen(t)
	_ = broken.Close()
	g.Serve(listen(t), Options{Handler: http.NotFoundHandler()})
	g.Serve(broken, Options{Handler: http.NotFoundHandler()})
	errs := []error{g.Await(t.Context()), g.Stop()} // Stop would end the servers before one fails
	for i, name := range []string{"Await", "Stop"} {
		if err := errs[i]; err == nil || !strings.Contains(err.Error(), broken.Addr().String()) {
			t.Errorf("%s returned %v", name, err)
		}
	}
}

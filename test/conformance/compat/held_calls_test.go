package compat

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/meshpilot/meshpilot/test/support/cluster/image"
)

// serve makes this test binary the application of a pod: a server of held calls.
var serve = flag.String("serve", "", "do not run tests but serve held calls on this address")

const heldCallsPort = 9090

func TestMain(m *testing.M) {
	flag.Parse()
	if *serve == "" {
		os.Exit(m.Run())
	}
	if err := serveHeldCalls(*serve); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// heldCallsImage returns the image "held-calls:*", whose container serves held calls.
func heldCallsImage() (image.Image, error) {
	self, err := os.Executable()
	return image.Image{
		Match: "held-calls:*", Files: map[string]string{"/held-calls": self},
		Entrypoint: []string{"/held-calls", fmt.Sprintf("-serve=:%d", heldCallsPort)},
	}, err
}

// serveHeldCalls serves /hold, which is answered after the first call to /release; /held, the number
// of calls to /hold so far; and /ending, which is "true" after SIGTERM. After SIGTERM it continues to
// serve until all calls to /hold have been answered.
func serveHeldCalls(address string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	var held sync.WaitGroup
	var calls atomic.Int32
	released := make(chan struct{})
	release := sync.OnceFunc(func() { close(released) })
	mux := http.NewServeMux()
	mux.HandleFunc("/hold", func(w http.ResponseWriter, _ *http.Request) {
		held.Add(1)
		defer held.Done()
		calls.Add(1)
		<-released
		fmt.Fprint(w, "released")
	})
	mux.HandleFunc("/held", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, calls.Load()) })
	mux.HandleFunc("/ending", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, ctx.Err() != nil) })
	mux.HandleFunc("/release", func(http.ResponseWriter, *http.Request) { release() })
	server := &http.Server{Addr: address, Handler: mux, ReadHeaderTimeout: time.Minute}
	failed := make(chan error, 1)
	go func() { failed <- server.ListenAndServe() }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	held.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return server.Shutdown(ctx)
}

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	var o options
	flag.StringVar(&o.name, "name", "", "who answers")
	flag.StringVar(&o.serve, "serve", "", "address to serve gRPC at; empty: it serves nothing")
	flag.StringVar(&o.control, "control", ":8081", "address to take requests for calls at")
	flag.BoolVar(&o.xds, "xds", false, "configured by xDS, as the bootstrap of gRPC says (GRPC_XDS_BOOTSTRAP)")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := runGreeter(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

type options struct {
	name, serve, control string
	xds                  bool
}

// linger is the maximum time that the control port stays open after the server has stopped: its
// requests are short.
const linger = 2 * time.Second

func runGreeter(ctx context.Context, o options) error {
	c := newController(o.xds)
	defer c.closeClients()
	control := &http.Server{Addr: o.control, Handler: c.httpHandler(), ReadHeaderTimeout: linger}
	failed := make(chan error, 1)
	go func() { failed <- control.ListenAndServe() }()
	if o.serve != "" {
		end, err := serveGreeter(o, c, failed)
		if err != nil {
			return err
		}
		defer end()
	} else {
		c.ready.Store(true)
	}
	defer func() {
		last, cancel := context.WithTimeout(context.Background(), linger)
		defer cancel()
		_ = control.Shutdown(last)
	}()
	select {
	case <-ctx.Done():
		return nil
	case err := <-failed:
		if errors.Is(err, http.ErrServerClosed) {
			return nil
		}
		return err
	}
}

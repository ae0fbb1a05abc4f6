package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/meshpilot/meshpilot/internal/base/netns"
	"github.com/meshpilot/meshpilot/internal/base/retry"
	"github.com/meshpilot/meshpilot/internal/diagnostics/localmesh/control"
)

const (
	// consolePort is the port of this machine at which the console is offered.
	consolePort = 8080
	// consoleAddress is the address of the control plane's HTTP port in its pod.
	consoleAddress = "127.0.0.1:8080"
)

// The flags of the processes in the sandbox, which the process outside adds.
const (
	flagDir     = "dir"
	flagRemove  = "remove-dir"
	flagConsole = "console-url"
)

// runWithConsole plays the demo in a sandbox, and meanwhile serves its web console at consolePort of
// this machine, or at a free port if that one is in use. Sockets of the sandbox cannot be reached from
// here, so this process listens and passes the listener to the sandbox.
func runWithConsole(opts options) (int, error) {
	dir, err := makeDir(opts.dir)
	if err != nil {
		return 1, err
	}
	if opts.dir == "" {
		os.Args = append(os.Args, "--"+flagDir, dir, "--"+flagRemove)
	}
	listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(consolePort)))
	if err != nil {
		listener, err = net.Listen("tcp", "127.0.0.1:0")
	}
	ctx, cancel := context.WithCancel(context.Background())
	var forwarding sync.WaitGroup
	if tcp, ok := listener.(*net.TCPListener); ok && err == nil {
		defer tcp.Close()
		os.Args = append(os.Args, "--"+flagConsole, consoleURL(tcp))
		forwarding.Go(func() { forwardWhenReady(ctx, dir, tcp) })
	}
	code, err := netns.Run(nil)
	cancel()
	forwarding.Wait()
	return code, err
}

// consoleURL returns the address of the console at a listener.
func consoleURL(l *net.TCPListener) string {
	return fmt.Sprintf("http://localhost:%d/ui/", l.Addr().(*net.TCPAddr).Port)
}

// forwardWhenReady forwards a listener to the control plane of the demo in dir as soon as it accepts
// commands, until the demo or ctx ends.
func forwardWhenReady(ctx context.Context, dir string, l *net.TCPListener) {
	const limit = 2 * time.Second
	delays := retry.NewBackoff(limit/20, limit) //nolint:mnd // short at first
	for {
		if err := forwardToPod(ctx, dir, "istiod", l, consoleAddress); !errors.Is(err, control.ErrNotRunning) {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(delays.NextBackOff()):
		}
	}
}

// consoleCommand serves the web console of a running demo on this machine. The control plane is in
// a network namespace of its own, so the demo accepts the connections: it is sent the listener, which
// belongs to this machine.
func consoleCommand() *cobra.Command {
	var dir string
	var port int
	cmd := &cobra.Command{
		Use:   "console",
		Short: "Serve the web console of a demo that was kept running at a port of this machine, until Ctrl-C",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			dir, err := runningDemo(dir)
			if err != nil {
				return err
			}
			listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
			if err != nil {
				return fmt.Errorf("%w (--port selects another one)", err)
			}
			defer listener.Close()
			tcp, ok := listener.(*net.TCPListener)
			if !ok {
				return errors.New("the listener is not TCP")
			}
			if _, err := fmt.Fprintln(c.OutOrStdout(), consoleURL(tcp)); err != nil {
				return err
			}
			return forwardToPod(c.Context(), dir, "istiod", tcp, consoleAddress)
		},
	}
	cmd.Flags().StringVar(&dir, "dir", "", "directory of the demo (default: of the one that runs)")
	cmd.Flags().IntVar(&port, "port", consolePort, "port of this machine; 0 selects a free one")
	return cmd
}

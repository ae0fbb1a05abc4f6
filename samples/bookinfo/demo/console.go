package main

import (
	"errors"
	"fmt"
	"net"
	"strconv"

	"github.com/spf13/cobra"
)

const (
	// consolePort is the port of this machine at which the console is offered.
	consolePort = 8080
	// consoleAddress is the address of the control plane's HTTP port in its pod.
	consoleAddress = "127.0.0.1:8080"
)

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
			if _, err := fmt.Fprintf(c.OutOrStdout(), "http://localhost:%d/ui/\n", listener.Addr().(*net.TCPAddr).Port); err != nil {
				return err
			}
			tcp, ok := listener.(*net.TCPListener)
			if !ok {
				return errors.New("the listener is not TCP")
			}
			return forwardToPod(c.Context(), dir, "istiod", tcp, consoleAddress)
		},
	}
	cmd.Flags().StringVar(&dir, "dir", "", "directory of the demo (default: of the one that runs)")
	cmd.Flags().IntVar(&port, "port", consolePort, "port of this machine; 0 selects a free one")
	return cmd
}

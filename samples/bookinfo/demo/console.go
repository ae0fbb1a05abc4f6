package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
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
// a network namespace of its own, so a forwarder in its pod accepts the connections: it inherits
// the listener, which belongs to this machine.
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
			self, err := os.Executable()
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
			return forwardFrom(dir, "istiod", listener, self, "forward", consoleAddress)
		},
	}
	cmd.Flags().StringVar(&dir, "dir", "", "directory of the demo (default: of the one that runs)")
	cmd.Flags().IntVar(&port, "port", consolePort, "port of this machine; 0 selects a free one")
	return cmd
}

// forwardFrom runs a command in a pod with a listener of this machine as its standard input. It
// returns when the command ends.
func forwardFrom(dir, pod string, l net.Listener, args ...string) error {
	tcp, ok := l.(*net.TCPListener)
	if !ok {
		return errors.New("the listener is not TCP")
	}
	file, err := tcp.File()
	if err != nil {
		return err
	}
	defer file.Close()
	conn, err := knock(dir)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := send(conn, request{Pod: pod, Args: args, Dir: "/"}, []*os.File{file, os.Stdout, os.Stderr}); err != nil {
		return err
	}
	status, err := receiveReply(conn)
	if err != nil {
		return err
	}
	return statusError(status)
}

// forwardCommand accepts connections of the listener that is its standard input, and forwards them
// to an address.
func forwardCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "forward ADDRESS",
		Short:  "Forward connections of the listener that is the standard input",
		Args:   cobra.ExactArgs(1),
		Hidden: true,
		RunE: func(_ *cobra.Command, args []string) error {
			l, err := net.FileListener(os.Stdin)
			if err != nil {
				return err
			}
			defer l.Close()
			for {
				conn, err := l.Accept()
				if err != nil {
					return err
				}
				go forwardConnection(conn, args[0])
			}
		},
	}
}

// forwardConnection copies bytes in both directions until both sides have closed.
func forwardConnection(conn net.Conn, address string) {
	defer conn.Close()
	upstream, err := net.Dial("tcp", address)
	if err != nil {
		return
	}
	defer upstream.Close()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = io.Copy(upstream, conn) // ends with either connection
		_ = upstream.(*net.TCPConn).CloseWrite()
	}()
	_, _ = io.Copy(conn, upstream) // ends with either connection
	_ = conn.(*net.TCPConn).CloseWrite()
	<-done
}

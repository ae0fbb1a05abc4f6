package main

import (
	"context"
	"net"
	"os"
	"path/filepath"

	"github.com/meshpilot/meshpilot/internal/base/netns"
	"github.com/meshpilot/meshpilot/internal/diagnostics/localmesh/control"
)

// The actions that other terminals can ask of a demo that stays.
const (
	actionExec    = "exec"
	actionForward = "forward"
	actionStop    = "stop"
)

// listenForCommands lets other terminals run commands in the nodes of a network, forward a listener
// to an address of a node, and end the demo.
func listenForCommands(dir string, network *netns.Network, stop func()) (*control.Server, error) {
	return control.Listen(filepath.Join(dir, control.SocketName), map[string]control.Handler{
		actionExec: func(ctx context.Context, c *control.Call) (control.Result, error) {
			node, err := control.FindNode(network, c.Node)
			if err != nil {
				return control.Result{}, err
			}
			status, err := control.Exec(ctx, c, node)
			return control.Result{Status: status}, err
		},
		actionForward: func(ctx context.Context, c *control.Call) (control.Result, error) {
			node, err := control.FindNode(network, c.Node)
			if err != nil {
				return control.Result{}, err
			}
			return control.Result{}, control.Forward(ctx, c, node, c.Args[0])
		},
		actionStop: func(ctx context.Context, _ *control.Call) (control.Result, error) {
			stop()
			<-ctx.Done() // the client waits until this process has ended
			return control.Result{}, nil
		},
	})
}

// execInPod runs a command in a pod with this process's standard files and directory, and returns its
// exit status.
func execInPod(ctx context.Context, dir, pod string, args []string) (int, error) {
	wd, err := os.Getwd()
	if err != nil {
		return 0, err
	}
	answer, err := control.Client{Dir: dir}.Do(ctx, control.Request{
		Action: actionExec, Node: pod, Args: args, Env: []string{"TERM=" + os.Getenv("TERM")}, Dir: wd,
	}, control.StandardFiles()...)
	return answer.Status, err
}

// forwardToPod forwards connections of a listener of this machine to an address of a pod, until ctx is
// canceled or the demo ends.
func forwardToPod(ctx context.Context, dir, pod string, l *net.TCPListener, address string) error {
	file, err := l.File()
	if err != nil {
		return err
	}
	defer file.Close()
	_, err = control.Client{Dir: dir}.Do(ctx, control.Request{
		Action: actionForward, Node: pod, Args: []string{address},
	}, file)
	return err
}

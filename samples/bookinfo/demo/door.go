package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"

	"github.com/meshpilot/meshpilot/internal/base/netns"
)

// doorName is the socket in a demo's directory through which other terminals reach into its world: a path works across
// PID, network and user namespaces alike, and needs no root.
const doorName = "door.sock"

// maxRequest bounds a request, in bytes.
const maxRequest = 64 << 10

// request asks a demo to end, or to run a command in a pod; standard input, output and error come along as
// descriptors.
type request struct {
	Stop bool     `json:"stop,omitempty"`
	Pod  string   `json:"pod,omitempty"`
	Args []string `json:"args,omitempty"`
	Env  []string `json:"env,omitempty"`
	Dir  string   `json:"dir,omitempty"`
}

// reply tells how a command ended, or why there was none.
type reply struct {
	Status int    `json:"status"`
	Error  string `json:"error,omitempty"`
}

// door answers requests until its listener is closed.
type door struct {
	listener *net.UnixListener
	network  *netns.Network
	stop     func() // ends the demo

	mu sync.Mutex
	// stopping are who asked for the end. Their connections close with the process, which is what they wait for.
	stopping []*net.UnixConn
}

func openDoor(dir string, network *netns.Network, stop func()) (*door, error) {
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dir, doorName), Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("opening the door to other terminals: %w", err)
	}
	d := &door{listener: l, network: network, stop: stop}
	go d.serve()
	return d, nil
}

func (d *door) close() error { return d.listener.Close() }

func (d *door) serve() {
	for {
		conn, err := d.listener.AcceptUnix()
		if err != nil {
			return
		}
		go d.answer(conn)
	}
}

func (d *door) answer(conn *net.UnixConn) {
	req, files, err := receive(conn)
	if errors.Is(err, errNothingSaid) {
		conn.Close()
		return
	}
	if err == nil && req.Stop {
		d.mu.Lock()
		d.stopping = append(d.stopping, conn)
		d.mu.Unlock()
		d.stop()
		return
	}
	defer conn.Close()
	var r reply
	if err == nil {
		r, err = d.exec(conn, req, files)
	}
	for _, f := range files {
		f.Close()
	}
	if err != nil {
		r.Error = err.Error()
	}
	_ = json.NewEncoder(conn).Encode(r) // the other side may have gone
}

var errNothingSaid = errors.New("nothing was said")

// receive reads one request and the descriptors that came with it.
func receive(conn *net.UnixConn) (request, []*os.File, error) {
	var req request
	buf, oob := make([]byte, maxRequest), make([]byte, syscall.CmsgSpace(3*4))
	n, oobn, _, _, err := conn.ReadMsgUnix(buf, oob)
	if err != nil || n == 0 {
		return req, nil, errors.Join(errNothingSaid, err)
	}
	var files []*os.File
	messages, err := syscall.ParseSocketControlMessage(oob[:oobn])
	if err != nil {
		return req, nil, fmt.Errorf("reading a request's descriptors: %w", err)
	}
	for _, m := range messages {
		fds, err := syscall.ParseUnixRights(&m)
		if err != nil {
			return req, files, fmt.Errorf("reading a request's descriptors: %w", err)
		}
		for _, fd := range fds {
			syscall.CloseOnExec(fd)
			files = append(files, os.NewFile(uintptr(fd), "visitor"))
		}
	}
	if err := json.Unmarshal(buf[:n], &req); err != nil {
		return req, files, fmt.Errorf("reading a request: %w", err)
	}
	if !req.Stop && len(files) != 3 {
		return req, files, fmt.Errorf("a request came with %d descriptors, want 3", len(files))
	}
	return req, files, nil
}

// exec runs the command of a request; it ends the command when the other side goes.
func (d *door) exec(conn *net.UnixConn, req request, files []*os.File) (reply, error) {
	node := d.network.Node(req.Pod)
	if node == nil {
		var names []string
		for _, n := range d.network.Nodes() {
			names = append(names, n.Name())
		}
		return reply{}, fmt.Errorf("there is no pod %q: want one of %q", req.Pod, names)
	}
	if len(req.Args) == 0 {
		return reply{}, errors.New("there is no command")
	}
	p, err := node.Start(netns.Command{
		Name: "exec", Path: req.Args[0], Args: req.Args[1:], Env: req.Env, Dir: req.Dir,
		Stdin: files[0], Stdout: files[1], Stderr: files[2],
	})
	if err != nil {
		return reply{}, err
	}
	ctx, gone := context.WithCancel(context.Background())
	go func() {
		defer gone()
		_, _ = conn.Read(make([]byte, 1)) // nothing is ever sent: this ends with the connection
	}()
	select {
	case <-p.Done():
	case <-ctx.Done():
		return reply{}, p.Stop(execGrace)
	}
	return reply{Status: p.Status()}, nil
}

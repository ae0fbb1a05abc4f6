package main

import (
	"context"
	"errors"
	"io"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/meshpilot/meshpilot/internal/base/netns"
)

// openTestDoor makes a network with one pod behind a door, and returns the door's directory.
func openTestDoor(t *testing.T) (dir string, stopped context.Context) {
	t.Helper()
	netns.Require(t)
	dir = t.TempDir()
	network, err := netns.New(netns.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := network.AddNode(netns.NodeOptions{Name: "client", Addrs: []netip.Addr{netip.MustParseAddr("10.66.0.3")}}); err != nil {
		t.Fatal(err)
	}
	stopped, stop := context.WithCancel(context.Background())
	d, err := openDoor(dir, network, stop)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(d.close(), network.Close()); err != nil {
			t.Error(err)
		}
	})
	return dir, stopped
}

// visit asks for a command with pipes for its standard output, and returns what it wrote.
func visit(t *testing.T, dir, pod string, args ...string) (status int, out string, err error) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	conn, err := knock(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := send(conn, request{Pod: pod, Args: args, Dir: "/"}, []*os.File{os.Stdin, w, w}); err != nil {
		t.Fatal(err)
	}
	w.Close()
	status, err = receiveReply(conn)
	text, _ := io.ReadAll(r)
	return status, string(text), err
}

func TestExecRunsInThePod(t *testing.T) {
	dir, _ := openTestDoor(t)
	status, out, err := visit(t, dir, "client", "sh", "-c", "uname -n; pwd; exit 5")
	if status != 5 || out != "client\n/\n" || err != nil {
		t.Errorf("status %d, output %q, %v", status, out, err)
	}
	for want, args := range map[string][]string{
		`no pod "nobody"`:     {"nobody", "true"},
		"executable file":     {"client", "no-such-program"},
		"there is no command": {"client"},
	} {
		if _, _, err := visit(t, dir, args[0], args[1:]...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("exec %q: %v, want an error with %q", args, err, want)
		}
	}
}

func TestExecEndsWithItsVisitor(t *testing.T) {
	dir, _ := openTestDoor(t)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	conn, err := knock(dir)
	if err != nil {
		t.Fatal(err)
	}
	req := request{Pod: "client", Args: []string{"sh", "-c", "echo started; exec sleep 1000"}, Dir: "/"}
	if err := send(conn, req, []*os.File{os.Stdin, w, w}); err != nil {
		t.Fatal(err)
	}
	w.Close()
	if _, err := r.Read(make([]byte, 16)); err != nil {
		t.Fatal(err)
	}
	conn.Close()
	if err := r.SetReadDeadline(time.Now().Add(5 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("after its visitor left, the command's output gives %v, want the end", err)
	}
}

func TestStopEndsTheDemo(t *testing.T) {
	dir, stopped := openTestDoor(t)
	conn, err := knock(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := send(conn, request{Stop: true}, nil); err != nil {
		t.Fatal(err)
	}
	select {
	case <-stopped.Done():
	case <-time.After(5 * time.Second):
		t.Fatal("nothing happened")
	}
}

func TestNobodyBehindTheDoor(t *testing.T) {
	dir := t.TempDir()
	if _, err := askExec(dir, "client", []string{"true"}); err == nil || !strings.Contains(err.Error(), "no demo is running in "+dir) {
		t.Errorf("askExec: %v", err)
	}
}

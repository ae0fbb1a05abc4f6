package netns_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/meshpilot/meshpilot/internal/base/netns"
)

func start(t *testing.T, node *netns.Node, c netns.Command) *netns.Process {
	t.Helper()
	p, err := node.Start(c)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func shell(script string) netns.Command {
	return netns.Command{Path: "sh", Args: []string{"-c", script}}
}

func TestProcessSeesItsNode(t *testing.T) {
	network := newNetwork(t, netns.Options{})
	addNode(t, network, "b", "10.66.0.3")
	node := addNode(t, network, "reviews-v1", "10.66.0.2")
	c := shell(`uname -n; grep reviews /etc/hosts; cat /proc/net/dev | grep -c :; echo "$ONLY $HIDDEN"; pwd`)
	c.Env = []string{"ONLY=this"}
	t.Setenv("HIDDEN", "leaked")
	p := start(t, node, c)
	if err := p.Wait(within(t, 5*time.Second)); err != nil {
		t.Fatal(err)
	}
	wd, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	want := "reviews-v1\n10.66.0.2\treviews-v1\n2\nthis \n" + wd
	if got := p.Tail(9); got != want {
		t.Errorf("the process saw %q, want %q", got, want)
	}
}

// Shared memory of one pod must not be visible in another.
func TestSharedMemoryIsTheNodesOwn(t *testing.T) {
	network := newNetwork(t, netns.Options{})
	a, b := addNode(t, network, "a", "10.66.0.2"), addNode(t, network, "b", "10.66.0.3")
	const name = "/dev/shm/netns-test"
	for _, step := range []struct {
		node *netns.Node
		want string
	}{{a, ""}, {b, ""}, {a, name}} {
		p := start(t, step.node, shell("ls "+name+" 2>/dev/null; touch "+name))
		if err := p.Wait(within(t, 5*time.Second)); err != nil {
			t.Fatal(err)
		}
		if got := p.Tail(1); got != step.want {
			t.Errorf("node %s finds %q, want %q", step.node.Name(), got, step.want)
		}
	}
	if _, err := os.Stat(name); err == nil {
		t.Errorf("%s is seen outside the nodes", name)
	}
}

func TestProcessRunsAsAnotherUser(t *testing.T) {
	node := addNode(t, newNetwork(t, netns.Options{}), "a", "10.66.0.2")
	if !netns.MapsUID(1337) {
		_, err := node.Start(netns.Command{Path: "true", UID: 1337})
		if err == nil {
			t.Error("a process was started as a user that this sandbox does not have")
		}
		return
	}
	c := shell("id -u; id -g; id -G")
	c.UID = 1337
	p := start(t, node, c)
	if err := p.Wait(within(t, 5*time.Second)); err != nil {
		t.Fatal(err)
	}
	if got := p.Tail(3); got != "1337\n1337\n1337" {
		t.Errorf("ids are %q, want 1337 each", got)
	}
}

func TestExposedFileIsReadByAnotherUser(t *testing.T) {
	node := addNode(t, newNetwork(t, netns.Options{}), "a", "10.66.0.2")
	outer := t.TempDir()
	hidden := outer + "/dir"
	if err := errors.Join(os.Chmod(outer, 0o700), os.Mkdir(hidden, 0o755)); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(hidden+"/f", []byte("open"), 0o644); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ expose, script string }{
		"file":      {hidden + "/f", "cat %s"},
		"directory": {hidden, "cat %s/f"},
	} {
		var path string
		for range 2 {
			var err error
			if path, err = netns.Expose(c.expose); err != nil {
				t.Fatal(err)
			}
		}
		command := shell(fmt.Sprintf(c.script, path))
		command.Name = name
		if netns.MapsUID(1337) {
			command.UID = 1337
		}
		p := start(t, node, command)
		if err := p.Wait(within(t, 5*time.Second)); err != nil {
			t.Fatalf("%s: %v: %s", name, err, p.Tail(3))
		}
		if got := p.Tail(1); got != "open" {
			t.Errorf("the exposed %s holds %q, want open", name, got)
		}
	}
}

func TestProcessErrorsContainTheLog(t *testing.T) {
	node := addNode(t, newNetwork(t, netns.Options{}), "a", "10.66.0.2")
	c := shell("echo because; exit 4")
	c.Name = "app"
	for name, wait := range map[string]func(*netns.Process) error{
		"Wait":      func(p *netns.Process) error { return p.Wait(within(t, 5*time.Second)) },
		"AwaitPort": func(p *netns.Process) error { return p.AwaitPort(within(t, 5*time.Second), "127.0.0.1:9080") },
		"AwaitOK":   func(p *netns.Process) error { return p.AwaitOK(within(t, 5*time.Second), "http://127.0.0.1:9080/") },
		"AwaitLine": func(p *netns.Process) error { return p.AwaitLine(within(t, 5*time.Second), "never") },
	} {
		err := wait(start(t, node, c))
		var failed *netns.ProcessError
		if !errors.As(err, &failed) {
			t.Errorf("%s: %v, want a ProcessError", name, err)
			continue
		}
		if failed.Tail(1) != "because" || !strings.Contains(err.Error(), `app on node "a"`) || !strings.Contains(err.Error(), "exit status 4") {
			t.Errorf("%s: %v, log %q", name, err, failed.Tail(1))
		}
	}
}

func TestAwaitFailsWithTheLastAnswer(t *testing.T) {
	node := addNode(t, newNetwork(t, netns.Options{}), "a", "10.66.0.2")
	p := start(t, node, shell("sleep 1000"))
	// A second, because on a busy machine one attempt can take 100 ms.
	err := p.AwaitPort(within(t, time.Second), "127.0.0.1:9080")
	if err == nil || !strings.Contains(err.Error(), "connection refused") {
		t.Errorf("AwaitPort: %v, want the last refusal", err)
	}
}

func TestStop(t *testing.T) {
	node := addNode(t, newNetwork(t, netns.Options{}), "a", "10.66.0.2")
	willing := start(t, node, shell("sleep 1000"))
	if err := willing.Stop(5 * time.Second); err != nil {
		t.Errorf("stopping a willing process: %v", err)
	}
	deaf := start(t, node, netns.Command{Name: "deaf", Path: "sh", Args: []string{"-c", `trap "" TERM; echo ready; sleep 1000`}})
	if err := deaf.AwaitLine(within(t, 5*time.Second), "ready"); err != nil {
		t.Fatal(err)
	}
	if err := deaf.Stop(30 * time.Millisecond); err == nil || !strings.Contains(err.Error(), "did not end within 30ms") {
		t.Errorf("stopping a deaf process: %v", err)
	}
	if err := deaf.Stop(time.Second); err != nil {
		t.Errorf("stopping an ended process: %v", err)
	}
}

func TestStandardStreams(t *testing.T) {
	node := addNode(t, newNetwork(t, netns.Options{}), "a", "10.66.0.2")
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	c := shell("echo out; echo err >&2")
	c.Stdout = w
	p := start(t, node, c)
	w.Close()
	out, err := io.ReadAll(r)
	if err != nil || string(out) != "out\n" {
		t.Errorf("stdout = %q (%v), want out", out, err)
	}
	if err := p.Wait(within(t, 5*time.Second)); err != nil {
		t.Fatal(err)
	}
	if got := p.Tail(9); got != "err" {
		t.Errorf("the log holds %q, want err", got)
	}
}

package main

import (
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/meshpilot/meshpilot/internal/base/netns"
	"github.com/meshpilot/meshpilot/internal/diagnostics/localmesh/control"
)

func TestMain(m *testing.M) { os.Exit(netns.TestMain(m)) }

// TestCommandsOfOtherTerminals runs a command in a pod, and ends the demo.
func TestCommandsOfOtherTerminals(t *testing.T) {
	netns.Require(t)
	dir := t.TempDir()
	network, err := netns.New(netns.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := network.AddNode(netns.NodeOptions{Name: "client", Addrs: []netip.Addr{netip.MustParseAddr("10.66.0.3")}}); err != nil {
		t.Fatal(err)
	}
	stopped := make(chan struct{})
	server, err := listenForCommands(dir, network, func() { close(stopped) })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(server.Close(), network.Close()); err != nil {
			t.Error(err)
		}
	})
	marker := filepath.Join(t.TempDir(), "marker")
	code, err := execInPod(t.Context(), dir, "client", []string{"sh", "-c", "uname -n > " + marker + "; exit 5"})
	if code != 5 || err != nil {
		t.Errorf("status %d, %v", code, err)
	}
	if text, err := os.ReadFile(marker); string(text) != "client\n" || err != nil {
		t.Errorf("the command ran on %q, %v", text, err)
	}
	go func() { _ = control.Client{Dir: dir}.Stop(t.Context(), control.Request{Action: actionStop}) }()
	select {
	case <-stopped:
	case <-time.After(5 * time.Second):
		t.Fatal("stop had no effect")
	}
}

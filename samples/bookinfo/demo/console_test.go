package main

import (
	"net"
	"os"
	"testing"
	"time"

	"github.com/meshpilot/meshpilot/test/support/serving"
)

// TestForward reads a page of a server that listens in a pod only, through a listener outside of its
// network.
func TestForward(t *testing.T) {
	dir, _ := openTestDoor(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	// Both commands end with the pod's network. The server does not use the listener.
	go func() { _ = forwardFrom(dir, "client", l, self, "serve", consoleAddress) }()
	go func() { _ = forwardFrom(dir, "client", l, self, "forward", consoleAddress) }()
	serving.Eventually(t, 30*time.Second, "the page", func() error {
		text, err := serving.Page("http://" + l.Addr().String() + "/ui/")
		if err == nil && text != "/ui/ of "+l.Addr().String() {
			t.Errorf("the page is %q", text)
		}
		return err
	})
}

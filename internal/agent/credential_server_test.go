package agent

import (
	"testing"

	"github.com/meshpilot/meshpilot/internal/agent/socket"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// TestHasCredentialServer tests that an SDS server of credentials is found while it listens.
func TestHasCredentialServer(t *testing.T) {
	t.Chdir(t.TempDir())
	if HasCredentialServer() {
		t.Error("found without a socket")
	}
	l, err := socket.Listen(mesh.CredentialServerSocket, socket.Everyone)
	if err != nil {
		t.Fatal(err)
	}
	if !HasCredentialServer() {
		t.Error("not found")
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if HasCredentialServer() {
		t.Error("found after its end")
	}
}

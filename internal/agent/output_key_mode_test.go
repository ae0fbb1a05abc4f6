package agent

import (
	"testing"

	"github.com/meshpilot/meshpilot/internal/agent/identity"
)

// TestOutputKeyMode: only the agent's user may read the private key in OUTPUT_CERTS, unless the
// agent writes a bootstrap for gRPC applications or a variable selects more readers.
func TestOutputKeyMode(t *testing.T) {
	const grpc, readers = "GRPC_XDS_BOOTSTRAP=/etc/istio/grpc.json", "MESHPILOT_OUTPUT_KEY_READERS="
	for _, tt := range []struct {
		vars []string
		want identity.KeyMode
	}{
		{nil, 0o600},
		{[]string{readers + "owner"}, 0o600},
		{[]string{readers + "group"}, 0o640},
		{[]string{readers + "all"}, 0o644},
		{[]string{grpc}, 0o640},
		{[]string{grpc, readers + "owner"}, 0o600},
		{[]string{grpc, readers + "all"}, 0o644},
	} {
		a := &agent{Options: options(t, "{}", append(tt.vars, "OUTPUT_CERTS=/certs")...)}
		if got := a.outputKeyMode(); got != tt.want {
			t.Errorf("with %v the mode is %o, want %o", tt.vars, got, tt.want)
		}
	}
}

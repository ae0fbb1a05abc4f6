package gatewayapi

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/meshpilot/meshpilot/test/support/cluster"
	"github.com/meshpilot/meshpilot/test/support/longtest"
)

// coreTests are tests of the suite that together deploy gateways, route, write statuses and follow changes.
func coreTests() []string {
	return []string{
		"GatewayClassObservedGenerationBump", "GatewayModifyListeners", "GatewayObservedGenerationBump",
		"HTTPRouteSimpleSameNamespace", "HTTPRouteCrossNamespace", "HTTPRouteMatching", "HTTPRouteReferenceGrant",
		"HTTPRouteInvalidNonExistentBackendRef", "HTTPRouteRequestHeaderModifier", "HTTPRouteHTTPSListener",
	}
}

// TestCore runs some tests of the suite, which `make conformance` runs whole.
func TestCore(t *testing.T) {
	longtest.Test(t)
	cluster.RequireNode(t)
	e, err := Start(t.Context(), Options{Output: t.Logf})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Stop(); err != nil {
			t.Error(err)
		}
	})
	var log bytes.Buffer
	result, err := e.Run(t.Context(), RunOptions{
		Profiles: []string{"GATEWAY-HTTP"}, Tests: strings.Join(coreTests(), "|"), Log: &log, Timeout: 10 * time.Minute,
	})
	if err != nil {
		t.Fatal(err)
	}
	var summary bytes.Buffer
	result.Print(&summary)
	t.Log(summary.String())
	if n := result.Failed(); n > 0 {
		t.Errorf("%d tests failed\n%s", n, log.String())
	}
	if n := len(result.Tests); n != len(coreTests()) {
		t.Errorf("%d tests ran, want %d", n, len(coreTests()))
	}
}

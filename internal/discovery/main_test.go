package discovery

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/meshpilot/meshpilot/test/support/cluster"
)

// shared is the API server of this package's tests, started by the first test that needs it.
var shared = cluster.NewShared(cluster.Options{IstioKinds: true}) //nolint:gochecknoglobals // started once for all tests

func TestMain(m *testing.M) { goleak.VerifyTestMain(shared.Around(m)) }

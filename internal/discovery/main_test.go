package discovery

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/meshpilot/meshpilot/test/support/cluster"
)

// shared is the API server of this package's tests, started for the first that asks for it.
var shared = cluster.NewShared(cluster.Options{IstioKinds: true}) //nolint:gochecknoglobals // started once for all tests

func TestMain(m *testing.M) { goleak.VerifyTestMain(shared.Around(m)) }

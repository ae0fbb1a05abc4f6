package controller

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/meshpilot/meshpilot/test/support/cluster"
)

var shared = cluster.NewShared(cluster.Options{GatewayAPI: cluster.Standard})

func TestMain(m *testing.M) { goleak.VerifyTestMain(shared.Around(m)) }

package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/meshpilot/meshpilot/internal/base/obs"
	"github.com/meshpilot/meshpilot/internal/capture/iptables"
	capture "github.com/meshpilot/meshpilot/internal/capture/iptables/command"
	"github.com/meshpilot/meshpilot/test/support/cluster"
)

var shared = cluster.NewShared(cluster.Options{})

// initContainerVariable makes the test binary run istio-iptables, as the init container does.
const initContainerVariable = "MESHPILOT_TEST_INIT_CONTAINER"

// TestMain runs the plugin itself if a runtime of the tests calls the test binary.
func TestMain(m *testing.M) {
	switch {
	case os.Getenv("CNI_COMMAND") != "":
		os.Exit(run(context.Background()))
	case os.Getenv(initContainerVariable) != "":
		os.Exit(initContainer())
	}
	goleak.VerifyTestMain(shared.Around(m))
}

// initContainer runs istio-iptables.
func initContainer() int {
	cmd := capture.New(os.LookupEnv, capture.SystemUsers(), func() (iptables.Environment, error) {
		logs, err := obs.NewLogs(obs.LogOptions{Out: os.Stderr})
		if err != nil {
			return iptables.Environment{}, err
		}
		return iptables.System(logs.Scope(obs.DefaultScope), io.Discard), nil
	})
	cmd.SetArgs(os.Args[1:])
	err := cmd.Execute()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	return capture.ExitCode(err)
}

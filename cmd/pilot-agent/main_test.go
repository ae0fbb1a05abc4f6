package main

import (
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/meshpilot/meshpilot/internal/base/netns"
)

// The test binary is three programs: the tests; pilot-agent, if the variable is set; and a stand-in
// for Envoy, if called by that name.
const (
	agentVar  = "MESHPILOT_TEST_AGENT"
	fakeEnvoy = "envoy-stand-in"
)

func TestMain(m *testing.M) {
	switch {
	case filepath.Base(os.Args[0]) == fakeEnvoy:
		os.Exit(standIn())
	case os.Getenv(agentVar) != "":
		os.Exit(run())
	default:
		// A network namespace of its own if possible, with its own loopback ports.
		os.Exit(netns.TestMain(m))
	}
}

// standIn does what the variable STAND_IN selects: it exits with a number, or waits for SIGTERM or
// longer.
func standIn() int {
	fmt.Println("stand-in called with", strings.Join(os.Args[1:], " "))
	what := os.Getenv("STAND_IN")
	if code, err := strconv.Atoi(what); err == nil {
		return code
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM)
	<-signals
	if what == "stubborn" {
		select {}
	}
	return 0
}

package scenario

import (
	"fmt"
	"net"
	"os"
	"runtime"
	"strings"

	"github.com/meshpilot/meshpilot/test/perf/report"
)

func thisMachine() report.Machine {
	m := report.Machine{
		CPUs:   runtime.NumCPU(),
		Kernel: firstLine("/proc/sys/kernel/osrelease"),
		Load:   firstLine("/proc/loadavg"),
	}
	if b, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		_, rest, _ := strings.Cut(string(b), "model name")
		rest, _, _ = strings.Cut(rest, "\n")
		m.Model = strings.Trim(rest, " \t:")
	}
	return m
}

func firstLine(path string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// freePorts returns unused ports.
func freePorts(n int) ([]int, error) {
	var ports []int
	var listeners []net.Listener
	defer func() {
		for _, l := range listeners {
			l.Close()
		}
	}()
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, fmt.Errorf("find free ports: %w", err)
		}
		listeners = append(listeners, l)
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
}

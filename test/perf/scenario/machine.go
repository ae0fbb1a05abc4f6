package scenario

import (
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

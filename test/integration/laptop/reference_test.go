package laptop

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/meshpilot/meshpilot/test/support/golden"
)

// TestReference runs the commands of testdata/reference.txtar in the mesh of the sample. "mesh forward"
// ends with the test. docs/PILOTCTL.md has the outputs.
func TestReference(t *testing.T) {
	require(t)
	golden.Run(t, "testdata/reference.txtar", func(t *testing.T, c *golden.Case) {
		s := newSession(t, nil)
		documented := "127.0.0.1:0" // the address of mesh forward in the commands
		forwarded := documented
		var text strings.Builder
		for line := range strings.Lines(string(c.Input("commands"))) {
			text.WriteString("$ " + line)
			line = strings.TrimSpace(line)
			if forward, found := strings.CutPrefix(line, "pilotctl mesh forward "); found {
				workload, ports, _ := strings.Cut(strings.TrimSuffix(forward, " &"), " ")
				local, port, _ := strings.Cut(ports, ":")
				documented = "127.0.0.1:" + local
				address, stop := s.forward(workload, port)
				defer stop()
				forwarded = address
				text.WriteString("http://" + documented + "\n\n")
				continue
			}
			text.WriteString(s.output(strings.ReplaceAll(line, documented, forwarded)) + "\n")
		}
		c.Compare(t, "session", []byte(s.stableText(text.String())))
	})
}

// output runs a command in a shell, and returns its output with its messages. mesh up gets a free port.
func (s *session) output(line string) string {
	s.t.Helper()
	isUp := strings.HasPrefix(line, "pilotctl mesh up ")
	if isUp {
		line += " --port 0"
	}
	cmd := s.command("bash", "-c", line)
	timer := time.AfterFunc(limit, func() { _ = cmd.Process.Kill() })
	defer timer.Stop()
	out, err := cmd.CombinedOutput()
	if err != nil {
		s.t.Fatalf("%s: %v\n%s", line, err, out)
	}
	if isUp {
		s.server = s.status().Console
	}
	return string(out)
}

// stableText returns the text with the default address of the control plane, the directory of a user, one
// of the answers of the service, and workloads in the order of their names.
func (s *session) stableText(text string) string {
	text = strings.NewReplacer(s.server, "127.0.0.1:8080", s.path("run"), "/run/user/1000").Replace(text)
	text = regexp.MustCompile(`hello from v\d`).ReplaceAllString(text, "hello from v1")
	return regexp.MustCompile(`(?m)(^\S+: Ready\n)+`).ReplaceAllStringFunc(text, func(list string) string {
		lines := strings.SplitAfter(list, "\n")
		slices.Sort(lines)
		return strings.Join(lines, "")
	})
}

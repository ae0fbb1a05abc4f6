package main

import (
	"strings"

	"github.com/meshpilot/meshpilot/samples/bookinfo/screen"
	"github.com/meshpilot/meshpilot/test/integration/k8s/story"
)

// audience follows the story on a terminal, or in a file.
type audience struct{ *screen.Screen }

var _ story.Audience = audience{}

// mostLines bounds the printed lines of a rule.
const mostLines = 24

// Show shows the first lines of a rule.
func (a audience) Show(yaml string) {
	lines := strings.Split(strings.Trim(yaml, "\n"), "\n")
	a.Quote(lines[:min(len(lines), mostLines)], len(lines)-mostLines, "lines more")
}

package console

import (
	"io/fs"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/meshpilot/meshpilot/internal/diagnostics/cli"
)

// copied are commands as the pages of the console offer them, with every argument that a page adds.
//
//nolint:gochecknoglobals // a constant
var copied = []string{
	"pilotctl problems", "pilotctl proxy-status", "pilotctl services", "pilotctl topology", "pilotctl registries",
	"pilotctl certificates", "pilotctl mtls", "pilotctl changes istiod-1.3", "pilotctl changes --watch -n shop",
	"pilotctl proxy-config clusters web.shop", "pilotctl proxy-config listeners web.shop", "pilotctl proxy-config routes web.shop",
	"pilotctl proxy-config endpoints web.shop", "pilotctl proxy-config secret web.shop", "pilotctl why virtualservice/reviews -n shop",
	"pilotctl callers ratings.shop --port 80 -X GET --path /a", "pilotctl diff --delete VirtualService/shop/reviews -f -",
	"pilotctl request GET /debug/configz",
	"pilotctl explain web.shop http://reviews:80/ -X POST -H a:b --principal shop/web --inbound --both",
}

// TestCopiedCommands checks that pilotctl accepts the commands that pages offer to copy, and that the
// sources of the pages have no others.
func TestCopiedCommands(t *testing.T) {
	names := map[string]bool{}
	for _, line := range copied {
		words := strings.Fields(line)[1:]
		c, rest, err := cli.New().Find(words)
		if err != nil {
			t.Errorf("%s: %v", line, err)
			continue
		}
		names[words[0]] = true
		if err := c.ParseFlags(rest); err != nil {
			t.Errorf("%s: %v", line, err)
		} else if err := c.ValidateArgs(c.Flags().Args()); err != nil {
			t.Errorf("%s: %v", line, err)
		}
	}
	sources := os.DirFS("../../../internal/diagnostics/console/ui/src")
	offered := regexp.MustCompile(`(?:command="|\[')pilotctl ([a-z-]+)`)
	found := 0
	err := fs.WalkDir(sources, ".", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".svelte") {
			return err
		}
		text, err := fs.ReadFile(sources, path)
		for _, m := range offered.FindAllSubmatch(text, -1) {
			found++
			if !names[string(m[1])] {
				t.Errorf("%s offers %s, which is not tested", path, m[0])
			}
		}
		return err
	})
	if err != nil || found < 15 {
		t.Errorf("the sources offer %d commands: %v", found, err)
	}
}

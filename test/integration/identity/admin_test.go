package identity

import (
	"context"
	"embed"
	"strings"

	"github.com/meshpilot/meshpilot/internal/base/netns"
	"github.com/meshpilot/meshpilot/test/support/serving"
)

//go:embed testdata
var testdata embed.FS

func contains(text, part string) bool { return strings.Contains(text, part) }

// admin sends a request to the admin port of a sidecar's Envoy.
func admin(ctx context.Context, node *netns.Node, path string) (string, error) {
	c := node.Client(effectTime)
	defer c.CloseIdleConnections()
	return serving.Ask(ctx, c, "http://127.0.0.1:15000"+path)
}

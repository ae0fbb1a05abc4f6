package identity

import (
	"context"
	"embed"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/meshpilot/meshpilot/internal/testkit/netns"
)

//go:embed testdata
var testdata embed.FS

func contains(text, part string) bool { return strings.Contains(text, part) }

// admin asks a sidecar's Envoy.
func admin(ctx context.Context, node *netns.Node, path string) (string, error) {
	c := node.Client(effectTime)
	defer c.CloseIdleConnections()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://127.0.0.1:15000"+path, nil)
	if err != nil {
		return "", err
	}
	resp, err := c.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", path, resp.Status)
	}
	return string(body), err
}

// eventually waits until a check is content.
func eventually(t *testing.T, what string, check func() error) {
	t.Helper()
	deadline := time.Now().Add(effectTime)
	for {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within %s: %v", what, effectTime, err)
		}
		time.Sleep(poll)
	}
}

package compat

import (
	"context"
	"testing"

	"github.com/meshpilot/meshpilot/test/integration/k8s/story"
	"github.com/meshpilot/meshpilot/test/support/cluster/image"
	"github.com/meshpilot/meshpilot/test/support/envoy"
)

// istioVersion is the tag of Istio's images in tests.
const istioVersion = "1.31.0"

// istioProxyImage is Istio's pilot-agent with upstream Envoy, as an image of a name.
func istioProxyImage(t *testing.T, match string) image.Image {
	t.Helper()
	return image.Image{
		Match: match, Entrypoint: []string{"/usr/local/bin/pilot-agent"}, User: image.ProxyUser,
		Files: map[string]string{
			"/usr/local/bin/pilot-agent": peer(t, "pilot-agent"), "/usr/local/bin/envoy": envoy.RequireBinary(t),
			"/var/lib/istio/envoy/envoy_bootstrap_tmpl.json": bootstrapTemplate(t),
		},
	}
}

// TestMoveFromIstiod follows docs/UPGRADE.md on a cluster where Istio's own charts have installed
// istiod, a gateway, and sidecars with Istio's agent: meshpilot beside istiod, a namespace that moves
// and returns, and the end of istiod. No call may fail.
func TestMoveFromIstiod(t *testing.T) {
	requirePeers(t)
	images := image.Map{
		{
			Match: "pilot:" + istioVersion, Entrypoint: []string{"/usr/local/bin/pilot-discovery"}, User: image.ProxyUser,
			Files: map[string]string{"/usr/local/bin/pilot-discovery": peer(t, "istiod")},
		},
		istioProxyImage(t, "proxyv2:"+istioVersion),
	}
	charts := sourceFile(t, "manifests", "charts")
	story.RunTest(t, images, func(s *story.Stage, ctx context.Context) error { return s.PlayMove(ctx, charts) })
}

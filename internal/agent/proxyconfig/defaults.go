package proxyconfig

import (
	meshconfig "istio.io/api/mesh/v1alpha1"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// DefaultConfig returns Istio's documented defaults of MeshConfig.defaultConfig, which the control
// plane also uses. Paths are relative to the working directory, which is / in a container.
func DefaultConfig() *meshconfig.ProxyConfig { return mesh.DefaultProxyConfig() }

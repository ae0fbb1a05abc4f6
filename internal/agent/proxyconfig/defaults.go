package proxyconfig

import (
	meshconfig "istio.io/api/mesh/v1alpha1"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// Default gives the values that Istio documents for MeshConfig.defaultConfig, the same that the control plane goes by.
// Paths are relative to the working directory, which is / in a container.
func Default() *meshconfig.ProxyConfig { return mesh.DefaultProxyConfig() }

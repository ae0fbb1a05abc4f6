package mesh

import (
	"maps"

	meshconfig "istio.io/api/mesh/v1alpha1"

	"google.golang.org/protobuf/proto"
	"sigs.k8s.io/yaml"

	"github.com/meshpilot/meshpilot/internal/model/config"
)

// OverlayProxyConfig returns a copy of base, which must not be nil, with a ProxyConfig in YAML
// merged over it, as in the annotation proxy.istio.io/config. Each field that the text sets, even
// to zero, replaces the whole field; null sets nothing, and proxyMetadata and proxyHeaders are
// merged. A pod with a field of another version must still start, so unknown and retired fields are
// skipped and described in ignored, as are repeated keys. If the text is otherwise invalid, err
// names each invalid field.
func OverlayProxyConfig(base *meshconfig.ProxyConfig, text []byte) (c *meshconfig.ProxyConfig, ignored, err error) {
	over, warnings, err := parse[*meshconfig.ProxyConfig](text)
	if err != nil {
		return nil, nil, err
	}
	var said map[string]any // includes explicit zero values, which a message does not keep
	if err := yaml.Unmarshal(text, &said); err != nil {
		return nil, nil, err
	}
	c = proto.CloneOf(base)
	replace(c, over, said)
	c.ProxyMetadata = maps.Clone(base.GetProxyMetadata())
	if c.ProxyMetadata == nil {
		c.ProxyMetadata = over.GetProxyMetadata()
	} else {
		maps.Copy(c.ProxyMetadata, over.GetProxyMetadata())
	}
	if base.GetProxyHeaders() != nil && over.GetProxyHeaders() != nil {
		c.ProxyHeaders = proto.CloneOf(base.ProxyHeaders)
		proto.Merge(c.ProxyHeaders, over.ProxyHeaders)
	}
	return c, faults(warnings), nil
}

// ProxyConfigWarnings returns a Warning for each part of a ProxyConfig that OverlayProxyConfig
// skips, as MeshConfigWarnings does.
func ProxyConfigWarnings(text []byte) []config.Problem {
	_, warnings, _ := parse[*meshconfig.ProxyConfig](text)
	return warnings
}

package mesh

import (
	"maps"

	meshconfig "istio.io/api/mesh/v1alpha1"

	"google.golang.org/protobuf/proto"
	"sigs.k8s.io/yaml"

	"github.com/meshpilot/meshpilot/internal/model/config"
)

// OverlayProxyConfig merges a ProxyConfig in YAML, as in the annotation proxy.istio.io/config, over
// base and returns the result. Each field that it sets, even to zero, replaces the whole field,
// except for proxyMetadata and proxyHeaders, which are merged; null sets nothing. base is not
// modified. Unknown and retired fields are skipped and described in ignored, because a pod with a
// field of another version must still start. err is set if the text is otherwise invalid, and names
// each invalid field.
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

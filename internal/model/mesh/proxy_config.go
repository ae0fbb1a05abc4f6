package mesh

import (
	"fmt"
	"maps"

	meshconfig "istio.io/api/mesh/v1alpha1"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"sigs.k8s.io/yaml"
)

// OverlayProxyConfig merges a ProxyConfig in YAML, as in the annotation proxy.istio.io/config, over
// base and returns the result. Each field that it sets, even to zero, replaces the whole field,
// except for proxyMetadata and proxyHeaders, which are merged. base is not modified. Unknown and
// retired fields are skipped and described in ignored, because a pod with a field of another
// version must still start. err is set if the text is otherwise invalid.
func OverlayProxyConfig(base *meshconfig.ProxyConfig, text []byte) (c *meshconfig.ProxyConfig, ignored, err error) {
	over, warnings, err := parse[*meshconfig.ProxyConfig](text)
	ignored = faults(warnings)
	if err != nil {
		if over = withoutUnknown(text); over == nil {
			return nil, nil, fmt.Errorf("proxy config: %w", err)
		}
		ignored = err
	}
	var said map[string]any // includes explicit zero values, which a message does not keep
	if err := yaml.Unmarshal(text, &said); err != nil {
		return nil, nil, fmt.Errorf("proxy config: %w", err)
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
	return c, ignored, nil
}

// withoutUnknown parses a ProxyConfig without its unknown fields. It returns nil if there are other
// faults. It also returns nil for text that is not YAML.
func withoutUnknown(text []byte) *meshconfig.ProxyConfig {
	asJSON, err := yaml.YAMLToJSON(text)
	if err != nil {
		return nil
	}
	c := &meshconfig.ProxyConfig{}
	if (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(asJSON, c) != nil {
		return nil
	}
	return c
}

package mesh

import (
	"fmt"
	"maps"

	meshconfig "istio.io/api/mesh/v1alpha1"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"sigs.k8s.io/yaml"
)

// OverlayProxyConfig lays a ProxyConfig in YAML, as the annotation proxy.istio.io/config has it, over another one: each field that
// it sets, also to zero, takes the place of the whole field, except that proxyMetadata and proxyHeaders are joined. The base is
// left as it is. What is unknown is left out, and ignored says what that is: a pod with a field of another version must start.
func OverlayProxyConfig(base *meshconfig.ProxyConfig, text []byte) (c *meshconfig.ProxyConfig, ignored, err error) {
	over, warnings, err := parse[*meshconfig.ProxyConfig](text)
	ignored = faults(warnings)
	if err != nil {
		if over = withoutUnknown(text); over == nil {
			return nil, nil, fmt.Errorf("proxy config: %w", err)
		}
		ignored = err
	}
	var said map[string]any // also what is said to be zero, which a message does not keep
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

// withoutUnknown reads a ProxyConfig of which only fields are wrong that there are none of; nil: there is more wrong with it.
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

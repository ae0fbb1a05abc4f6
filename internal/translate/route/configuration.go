package route

import (
	"google.golang.org/protobuf/encoding/protowire"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// maxDirectResponseBytes bounds the bodies of direct responses (RouteConfiguration.max_direct_response_body_size_bytes).
const maxDirectResponseBytes = 1 << 20

// configuration is a RouteConfiguration being put together, its fields in the order of their numbers.
type configuration struct {
	body []byte
}

// newConfiguration begins one with its virtual hosts; nil is none.
func newConfiguration(name string, hosts []*virtualHost) *configuration {
	size := 512 // the name, the catch-all and what follows it
	for _, h := range hosts {
		if h != nil {
			size += len(h.encoded)
		}
	}
	c := &configuration{body: appendString(make([]byte, 0, size), configNameField, name)}
	for _, h := range hosts {
		if h != nil {
			c.body = append(c.body, h.encoded...)
		}
	}
	return c
}

// finish appends what comes after the virtual hosts.
func (c *configuration) finish(ignorePort bool) {
	c.body = appendString(c.body, configRemoveField, mesh.LostRequestHeader) // once no retry follows
	c.body = appendMessage(c.body, configValidateField, nil)                 // BoolValue false: a route may come before its cluster
	limit := protowire.AppendVarint(protowire.AppendTag(nil, uint32ValueField, protowire.VarintType), maxDirectResponseBytes)
	c.body = appendMessage(c.body, configBodyLimitField, limit)
	if ignorePort {
		c.body = protowire.AppendVarint(protowire.AppendTag(c.body, configIgnorePortField, protowire.VarintType), 1)
	}
}

func appendMessage(b []byte, field protowire.Number, body []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(b, field, protowire.BytesType), body)
}

// catchAll appends the virtual host of requests to nobody that the mesh knows: they pass to the cluster, or without one are
// told so.
func (c *configuration) catchAll(cluster string, attempts bool) {
	name, r := "block_all", blocked()
	if cluster != "" {
		name, r = "allow_any", passed(cluster)
	}
	c.body = appendHost(c.body, name, []string{"*"}, encodeRoutes([]*routev3.Route{r}), attempts)
}
